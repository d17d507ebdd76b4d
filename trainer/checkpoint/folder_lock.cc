#include <fcntl.h>
#include <sys/file.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/folder_lock.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

namespace tutti::trainer {
namespace {

std::string holder_of(const std::filesystem::path& file) {
  try {
    std::string text = read_whole_file(file);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.empty() ? "" : " (" + text + ")";
  } catch (const std::runtime_error&) {
    return "";
  }
}

/// For the reader of an error: who we are. That it could not be written is no reason to stop.
void write_holder(int descriptor) noexcept {
  const std::string text = "process " + std::to_string(::getpid()) + " on " + comm::host_name() + "\n";
  if (::ftruncate(descriptor, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::write(descriptor, text.data(), text.size());
}

/// A folder that was made just now must survive a power failure, too; so must the one around it (a run's folder). Not
/// every parent may be opened, and then it was there before.
void sync_parents(const std::filesystem::path& dir) {
  std::filesystem::path parent = std::filesystem::absolute(dir);
  for (int level = 0; level < 2; ++level) {
    parent = parent.parent_path();
    try {
      sync_folder(parent);
    } catch (const std::runtime_error&) {
      return;
    }
  }
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& dir, std::chrono::milliseconds patience) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) throw std::runtime_error("cannot create the folder " + dir.string() + ": " + error.message());
  sync_parents(dir);
  const std::filesystem::path file = dir / ".lock";
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw std::runtime_error("cannot write " + file.string() + ": " + std::strerror(errno));
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error_number = errno;
    if (error_number == EINTR) continue;
    if (error_number != EWOULDBLOCK) return;  // a file system without locks
    if (std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    ::close(descriptor_);
    throw std::runtime_error("the folder " + dir.string() + " is in use by another run" + holder_of(file) +
                             "; give each run a --checkpoint-dir (or --run-dir) of its own, or end the other one");
  }
  write_holder(descriptor_);
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace tutti::trainer
