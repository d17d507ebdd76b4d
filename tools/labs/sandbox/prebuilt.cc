#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tutti/comm/base/format.h>
#include <tutti/tools/labs/embedded.h>
#include <tutti/tools/labs/sandbox/prebuilt.h>
#include <tutti/trainer/data/data_search.h>
#include <tutti/trainer/data/digest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace tutti::labs {

namespace fs = std::filesystem;

namespace {

bool lock(const Descriptor& folder, int how) {
  while (::flock(folder.get(), how) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

/// The cache's folder, which this user alone may write; nothing where there can be none.
Descriptor opened_cache(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat found {};
  const bool is_own = opened.get() >= 0 && ::fstat(opened.get(), &found) == 0 && found.st_uid == ::geteuid();
  return is_own && ::fchmod(opened.get(), S_IRWXU) == 0 ? std::move(opened) : Descriptor();
}

void write_file(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file.string() + " for compiling a submission");
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A file's path, size and time of change: a package that brings another version of it changes them.
std::string state_of(const fs::path& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0) return file.string() + " is gone\n";
  return file.string() + ' ' + std::to_string(found.st_size) + ' ' + std::to_string(found.st_ctim.tv_sec) + '.' +
         std::to_string(found.st_ctim.tv_nsec) + '\n';
}

}  // namespace

fs::path program_named(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? fs::path(name) : fs::path();
  const char* path = std::getenv("PATH");
  for (const std::string& folder : comm::split(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    if (::access((folder + "/" + name).c_str(), X_OK) == 0) return fs::path(folder) / name;
  }
  return {};
}

Prebuilt::Prebuilt(const std::vector<std::string>& command, const fs::path& scratch, const CommandLimits& limits)
    : command_(command) {
  const fs::path cache = trainer::DataSearch::from_environment({}).cache_home;
  if (cache.is_absolute() && is_in(cache / "tutti" / "labs", scratch, limits)) return;
  folder_ = scratch;
  make(scratch, limits, false);
}

bool Prebuilt::is_in(const fs::path& cache, const fs::path& scratch, const CommandLimits& limits) try {
  folder_ = cache;
  lock_ = opened_cache(cache);
  if (lock_.get() < 0 || !lock(lock_, LOCK_SH)) return false;
  if (is_current()) return true;
  // It stays locked until the end of this object, so that no other grader makes another one meanwhile.
  if (!lock(lock_, LOCK_EX)) return false;
  if (!is_current()) make(scratch, limits, true);
  return true;
} catch (const std::exception&) {
  return false;  // of a full disk, say; if it is the compiler's fault, making it in `scratch` fails, too
}

/// A sum over all that it was made from: the command, the grader's files, and the compiler and headers by their states.
/// The compiler lists the headers in driver.d, as a rule of make(1).
std::string Prebuilt::origin() const {
  trainer::Digest sum;
  for (const std::string& word : command_) sum.add(word + '\n');
  for (const EmbeddedFile& file : submission_files()) sum.add(file.text.data(), file.text.size());
  sum.add(state_of(program_named(command_[0])));
  std::istringstream rule(text_of(folder_ / "driver.d"));
  std::string word;
  rule >> word;  // "driver.o:"
  while (rule >> word) {
    if (word != "\\") sum.add(state_of(word));
  }
  return sum.hex();
}

bool Prebuilt::is_current() const {
  const std::string kept = text_of(folder_ / "origin");
  return !kept.empty() && kept == origin();
}

void Prebuilt::make(const fs::path& scratch, const CommandLimits& limits, bool is_kept) const {
  fs::remove(folder_ / "origin");
  const fs::path own = include() / "tutti/tools/labs";
  for (const EmbeddedFile& file : submission_files()) write_file(own / file.path, file.text);
  const auto run = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> words = command_;
    words.insert(words.end(), {"-I", include().string()});
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run_limited(words, scratch, limits);
  };
  const CommandResult driver = run({"-MD", "-MF", (folder_ / "driver.d").string(), "-c", "-o", this->driver().string(),
                                    (own / "driver/driver.cc").string()});
  if (!driver.is_good()) {
    throw std::runtime_error("the compiler " + command_[0] + " cannot compile the grader's own files:\n" +
                             driver.output);
  }
  // A compiler uses it only if it is its own, made with the same flags. Made for one submission it would cost more than
  // it saves.
  const fs::path precompiled = own / "lab.h.gch";
  if (is_kept && !run({"-x", "c++-header", "-o", precompiled.string(), (own / "lab.h").string()}).is_good()) {
    fs::remove(precompiled);
  }
  write_file(folder_ / "origin", origin());
}

}  // namespace tutti::labs
