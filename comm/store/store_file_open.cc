// How a store's file is found or made, and told from one that is not for this job.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/store/store_file.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/printable.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <filesystem>

namespace tutti::comm {
namespace {

std::string time_text(std::uint64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32] = "?";
  if (::gmtime_r(&time, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

/// A folder stands for a file in it that is named after the job.
std::string file_path(const FileStoreOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.path, ignored)) return options.path;
  std::string name = options.job_id.substr(0, 100);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    if (!plain) c = '_';
  }
  return (std::filesystem::path(options.path) / ("tutti-" + name + ".store")).string();
}

[[noreturn]] void exposed(const std::string& path, const std::string& found) {
  throw Error(ErrorCode::Unauthorized, "the store file " + path + " is exposed: " + found);
}

void check_kind_and_owner(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode))
    throw Error(ErrorCode::Protocol,
                "the store file " + path + " is foreign: it is no regular file. Name another path, or remove it");
  if (info.st_uid != ::geteuid())
    exposed(path, "it belongs to user " + std::to_string(info.st_uid) + ", and this is user " +
                      std::to_string(::geteuid()) + ". Name a path in a folder that is yours");
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    exposed(path, "others may read or write it. If you trust it: chmod 600 '" + path + "'");
}

}  // namespace

std::string process_text(std::uint64_t pid, const std::string& host) {
  std::string text = "pid " + std::to_string(pid) + " on host " + printable(host, 64);
  if (host != host_name()) return text;
  const bool gone = ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
  return text + (gone ? ", which has ended" : ", which still runs");
}

StoreFile::StoreFile(const FileStoreOptions& options, Deadline deadline) : path_(file_path(options)) {
  if (path_.empty()) throw Error(ErrorCode::InvalidArgument, "a FileStore was given no path");
  open_again(options, deadline);
}

void StoreFile::open_again(const FileStoreOptions& options, Deadline deadline) {
  loaded_ = false;
  do {
    while (!open_existing()) make(options);
  } while (!read_identity(options, deadline));
}

/// False if there is no such file.
bool StoreFile::open_existing() {
  // Nobody waits in open(2) for the other end of a pipe that somebody has put there.
  file_ = Socket(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file_.get() >= 0) return true;
  if (errno == ENOENT) return false;
  if (errno == ELOOP)
    throw Error(ErrorCode::Protocol, "the store file " + path_ + " is foreign: it is a symbolic link. Name its target");
  cannot("open", errno);
}

/// Writes the header under a name of its own and links it into place, so that the file is whole whenever it is seen,
/// and the first of several processes wins.
void StoreFile::make(const FileStoreOptions& options) {
  StoreFileHeader header;
  header.world_size = options.world_size;
  header.pid = static_cast<std::uint32_t>(::getpid());
  header.created = static_cast<std::uint64_t>(std::time(nullptr));
  header.job = identity_hash(options.job_id);
  header.host = host_name();
  header.job_id = options.job_id;
  std::string draft = path_ + ".XXXXXX";
  const Socket output(::mkostemp(draft.data(), O_CLOEXEC));  // mode 0600
  if (output.get() < 0) cannot("make", errno);
  const auto bytes = encode_store_file_header(header);
  const bool written = ::write(output.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
                       ::fsync(output.get()) == 0;
  const int write_error = errno;
  const bool linked = written && (::link(draft.c_str(), path_.c_str()) == 0 || errno == EEXIST);
  const int link_error = errno;
  ::unlink(draft.c_str());
  if (!written) cannot("write", write_error);
  if (!linked) cannot("link a new file to the name of", link_error);
}

/// Throws if the file is not for us; false if it has been removed meanwhile.
bool StoreFile::read_identity(const FileStoreOptions& options, Deadline deadline) {
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) cannot("look at", errno);
  check_kind_and_owner(path_, info);
  lock(Access::Read, deadline);
  const bool there = !removed();
  if (there) read_header();  // a throw ends the constructor, and closing the file ends the lock
  unlock();
  if (!there) return false;
  if (header_.job != identity_hash(options.job_id))
    throw Error(ErrorCode::Unauthorized,
                "the store file " + path_ + " is stale, or another job's: it is of job \"" +
                    printable(header_.job_id, 128) + "\", begun " + time_text(header_.created) + " by " +
                    process_text(header_.pid, header_.host) + "; this is job \"" + printable(options.job_id, 128) +
                    "\". Remove the file if that job is over, else name another path");
  if (header_.world_size >= 0 && options.world_size >= 0 && header_.world_size != options.world_size)
    throw Error(ErrorCode::Unauthorized,
                "the store file " + path_ + " is of a world of " + std::to_string(header_.world_size) +
                    " ranks, begun " + time_text(header_.created) + " by " + process_text(header_.pid, header_.host) +
                    "; this rank belongs to a world of " + std::to_string(options.world_size) +
                    ". If an earlier run has left it (stale), remove it");
  return true;
}

}  // namespace tutti::comm
