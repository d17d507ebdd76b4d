#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tutti/tools/labs/sandbox/workplace.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace tutti::labs {

namespace fs = std::filesystem;

namespace {

constexpr char kPrefix[] = "tutti-lab-check-";

/// Whether the folder that was opened is still the one of that name, and this user's.
bool is_ours(const Descriptor& folder, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(folder.get(), &opened) == 0 && ::lstat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev && opened.st_uid == ::geteuid();
}

/// The folder with its lock; nothing if another holds it, or has removed it meanwhile. `lockless`: whether it is wanted
/// where the file system has no locks.
Descriptor held(const fs::path& path, bool lockless) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0) return folder;
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || !lockless)) return Descriptor();
  return is_ours(folder, path) ? std::move(folder) : Descriptor();
}

void remove_unheld() {
  std::error_code error;
  for (fs::directory_iterator entry(fs::temp_directory_path(error), error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(kPrefix)) continue;
    const Descriptor folder = held(entry->path(), false);
    std::error_code ignored;
    if (folder.get() >= 0) fs::remove_all(entry->path(), ignored);
  }
}

}  // namespace

Workplace::Workplace() {
  remove_unheld();
  const std::string pattern = (fs::temp_directory_path() / (std::string(kPrefix) + "XXXXXX")).string();
  // Another grader that looks for what is left may take a new folder before it is locked.
  for (int attempt = 0; attempt < 100 && lock_.get() < 0; ++attempt) {
    std::string name = pattern;
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("cannot make a temporary folder " + name + ": " + std::strerror(errno));
    }
    path_ = name;
    lock_ = held(path_, true);
  }
  if (lock_.get() < 0) throw std::runtime_error("cannot lock a temporary folder such as " + path_.string());
  fs::create_directory(empty_folder());
}

Workplace::~Workplace() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace tutti::labs
