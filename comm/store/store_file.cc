#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/store/store_file.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/printable.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <thread>
#include <utility>

namespace tutti::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kFirstLockPause{50};
constexpr microseconds kLongestLockPause{2000};
constexpr milliseconds kLockGrace{200};  // a lock held by others at the deadline may still be waited for

// What is locked: one byte for all records, and one for each rank, where no record comes.
constexpr off_t kRecordsByte = 0;
constexpr off_t kPresenceBytes = off_t{1} << 48;

struct flock one_byte(int type, off_t at) {
  struct flock request {};
  request.l_type = static_cast<short>(type);
  request.l_whence = SEEK_SET;
  request.l_start = at;
  request.l_len = 1;
  return request;
}

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

void StoreFile::cannot(const std::string& verb, int error_number) const {
  throw_errno("cannot " + verb + " the store file " + path_, error_number);
}

bool StoreFile::removed() const {
  struct stat info {};
  return ::fstat(file_.get(), &info) == 0 && info.st_nlink == 0;
}

void StoreFile::lock(Access access, Deadline deadline) {
  const auto start = Deadline::Clock::now();
  const Deadline until(std::max(deadline.time_point(), start) + kLockGrace);
  microseconds pause = kFirstLockPause;
  for (;;) {
    struct flock request = one_byte(access == Access::Write ? F_WRLCK : F_RDLCK, kRecordsByte);
    if (::fcntl(file_.get(), F_OFD_SETLK, &request) == 0) return;
    if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
      cannot("lock (is its file system mounted without locks?)", errno);
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) cannot("lock", errno);
    if (until.expired())
      throw Error(ErrorCode::Timeout,
                  "timed out after " +
                      std::to_string(std::chrono::duration<double>(Deadline::Clock::now() - start).count()) +
                      " s waiting for the lock of the store file " + path_ +
                      "; a process that holds it is frozen, or its host is");
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongestLockPause);
  }
}

void StoreFile::unlock() noexcept {
  struct flock request = one_byte(F_UNLCK, kRecordsByte);
  ::fcntl(file_.get(), F_OFD_SETLK, &request);
}

void StoreFile::hold_presence(int rank) {
  // Shared, because several stores of one process may be of the same rank.
  struct flock request = one_byte(F_RDLCK, kPresenceBytes + rank);
  if (::fcntl(file_.get(), F_OFD_SETLK, &request) != 0) cannot("lock this rank's byte of", errno);
}

bool StoreFile::present(int rank) const {
  struct flock request = one_byte(F_WRLCK, kPresenceBytes + rank);
  return ::fcntl(file_.get(), F_OFD_GETLK, &request) != 0 || request.l_type != F_UNLCK;
}

std::string StoreFile::read_at(std::uint64_t offset, std::uint64_t count) {
  std::string bytes(count, '\0');
  std::size_t have = 0;
  while (have < count) {
    const ssize_t got = ::pread(file_.get(), bytes.data() + have, count - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno != EINTR) cannot("read", errno);
    if (got == 0) break;
    if (got > 0) have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

void StoreFile::write_at(const std::string& bytes, std::uint64_t offset) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::pwrite(file_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno != EINTR) cannot("write " + std::to_string(bytes.size()) + " bytes to", errno);
    if (count > 0) done += static_cast<std::size_t>(count);
  }
}

void StoreFile::read_header() {
  const std::string bytes = read_at(0, kStoreFileHeaderBytes);
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) cannot("look at", errno);
  header_ = decode_store_file_header(std::as_bytes(std::span(bytes)), static_cast<std::uint64_t>(info.st_size), path_);
}

void StoreFile::catch_up(KeyMap& map) {
  read_header();
  if (applied_ == 0) {
    map = KeyMap();
    applied_ = kStoreFileHeaderBytes;
  }
  if (applied_ == header_.committed) return;
  const std::uint64_t begin = std::exchange(applied_, 0);  // until all of it is applied
  const std::string bytes = read_at(begin, header_.committed - begin);
  std::size_t at = 0;
  while (const auto request = next_store_record(bytes, at, begin, path_)) {
    check_request(*request);
    map.apply(*request);
  }
  applied_ = header_.committed;
}

void StoreFile::append(const StoreRequest& request) {
  applied_ = 0;  // the map shows what the file does not
  std::string record;
  append_store_record(record, request);
  write_at(record, header_.committed);
  StoreFileHeader next = header_;
  next.committed += record.size();
  const auto bytes = encode_store_file_header(next);
  write_at(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), 0);
  header_ = next;
  applied_ = header_.committed;
}

void StoreFile::remove() noexcept { ::unlink(path_.c_str()); }

// --- Opening -------------------------------------------------------------------------------------------------------

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
  applied_ = 0;
  do {
    while (!open_existing()) make(options);
  } while (!read_identity(options, deadline));
}

/// False if there is no such file.
bool StoreFile::open_existing() {
  // O_NONBLOCK: open(2) of a pipe would wait for its other end.
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
