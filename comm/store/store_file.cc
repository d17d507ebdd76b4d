#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/output_file.h>
#include <tutti/comm/store/store_file.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/printable.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <thread>

namespace tutti::comm {
namespace {

constexpr std::chrono::microseconds kFirstLockPause{50}, kLongestLockPause{2000};
constexpr std::chrono::milliseconds kGrace{200};  // a lock may still be waited for after the deadline

// What is locked: one byte for all records, and one for each rank, where no record comes.
constexpr off_t kRecordsByte = 0;
constexpr off_t kPresenceBytes = off_t{1} << 48;

constexpr std::size_t kChecksumBytes = 8;
constexpr std::size_t kRecordFixedBytes = kChecksumBytes + kStoreHeaderBytes;

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
  const auto is_plain = [](unsigned char c) { return c == '-' || (c < 0x80 && std::isalnum(c) != 0); };
  std::ranges::replace_if(name, std::not_fn(is_plain), '_');
  return (std::filesystem::path(options.path) / ("tutti-" + name + ".store")).string();
}

std::string_view bytes_of(const StoreFileHeader& header) {
  return {reinterpret_cast<const char*>(&header), sizeof header};
}

struct flock one_byte(int type, off_t at) {
  struct flock request {};
  request.l_type = static_cast<short>(type);
  request.l_whence = SEEK_SET;
  request.l_start = at;
  request.l_len = 1;
  return request;
}

}  // namespace

std::string process_text(std::uint64_t pid, const std::string& host) {
  std::string text = "pid " + std::to_string(pid) + " on host " + printable(host, 64);
  if (host != host_name()) return text;
  const bool gone = ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
  return text + (gone ? ", which has ended" : ", which still runs");
}

StoreFile::StoreFile(const FileStoreOptions& options, Deadline deadline) : path_(file_path(options)) {
  if (path_.empty()) refuse("a FileStore was given no path");
  open_again(options, deadline);
}

void StoreFile::lock(Access access, Deadline deadline) {
  const auto start = Deadline::Clock::now();
  const Deadline until(std::max(deadline.time_point(), start) + kGrace);
  for (auto pause = kFirstLockPause;; pause = std::min(pause * 2, kLongestLockPause)) {
    std::unique_lock turn(mutex_, std::try_to_lock);  // of this process's threads
    const int error = turn ? lock_byte(access == Access::Write ? F_WRLCK : F_RDLCK, kRecordsByte) : EAGAIN;
    if (error == 0) return static_cast<void>(turn.release());
    if (error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == EINVAL)
      cannot("lock (is its file system mounted without locks?)", error);
    if (error != EAGAIN && error != EACCES && error != EINTR) cannot("lock", error);
    if (until.expired()) {
      throw Error(ErrorCode::Timeout,
                  format("timed out after %.6f s waiting for the lock of the store file ", elapsed_seconds(start)),
                  path_, "; the process that holds it, maybe this one, is frozen, or its host is");
    }
    if (turn) turn.unlock();
    std::this_thread::sleep_for(pause);
  }
}

void StoreFile::unlock() noexcept {
  lock_byte(F_UNLCK, kRecordsByte);
  mutex_.unlock();
}

void StoreFile::catch_up(KeyMap& map) {
  read_header();
  if (applied_ == 0) {
    map = KeyMap();
    applied_ = sizeof header_;
  }
  if (applied_ == header_.committed) return;
  const std::uint64_t begin = std::exchange(applied_, 0);  // until all of it is applied
  apply_records(read_at(begin, header_.committed - begin), begin, map);
  applied_ = header_.committed;
}

void StoreFile::append(const StoreRequest& request) {
  applied_ = 0;  // the map shows what the file does not
  std::string record(kChecksumBytes, '\0');
  append_store_message(record, static_cast<std::uint8_t>(request.op), 0, request.body);
  const std::uint64_t checksum = identity_hash(std::string_view(record).substr(kChecksumBytes));
  std::memcpy(record.data(), &checksum, kChecksumBytes);
  write_at(record, header_.committed);
  StoreFileHeader next = header_;
  next.committed += record.size();
  write_at(bytes_of(next), 0);
  header_ = next;
  applied_ = header_.committed;
}

void StoreFile::hold_presence(int rank) {
  // Shared, because several stores of one process may be of the same rank.
  if (const int error = lock_byte(F_RDLCK, kPresenceBytes + rank); error != 0)
    cannot("lock this rank's byte of", error);
}

bool StoreFile::present(int rank) const {
  struct flock request = one_byte(F_WRLCK, kPresenceBytes + rank);
  return ::fcntl(file_.get(), F_OFD_GETLK, &request) != 0 || request.l_type != F_UNLCK;
}

bool StoreFile::removed() const {
  struct stat info {};
  return ::fstat(file_.get(), &info) == 0 && info.st_nlink == 0;
}

void StoreFile::open_again(const FileStoreOptions& options, Deadline deadline) {
  applied_ = 0;
  do {
    while (!open_existing()) make(options);
  } while (!read_identity(options, deadline));
}

int StoreFile::lock_byte(int type, off_t at) const {
  struct flock request = one_byte(type, at);
  return ::fcntl(file_.get(), F_OFD_SETLK, &request) == 0 ? 0 : errno;
}

bool StoreFile::open_existing() {
  // O_NONBLOCK: open(2) of a pipe would wait for its other end.
  file_ = Socket(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file_.get() < 0 && errno == ENOENT) return false;
  if (file_.get() < 0 && errno == ELOOP) foreign("it is a symbolic link. Name its target");
  if (file_.get() < 0) cannot("open", errno);
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) cannot("look at", errno);
  if (!S_ISREG(info.st_mode)) foreign("it is no regular file. Name another path, or remove it");
  if (info.st_uid != ::geteuid())
    unauthorized(joined("exposed: it belongs to user ", info.st_uid, ", and this is user ", ::geteuid(),
                        ". Name a path in a folder that is yours"));
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    unauthorized("exposed: others may read or write it. If you trust it: chmod 600 '" + path_ + "'");
  return true;
}

void StoreFile::make(const FileStoreOptions& options) {
  StoreFileHeader header;
  header.world_size = options.world_size;
  header.pid = static_cast<std::uint32_t>(::getpid());
  header.created = static_cast<std::uint64_t>(std::time(nullptr));
  header.job = identity_hash(options.job_id);
  host_name().copy(header.host.data(), header.host.size() - 1);
  options.job_id.copy(header.job_id.data(), header.job_id.size() - 1);
  if (const int failed = create_private_file(path_, bytes_of(header)); failed != 0) cannot("make", failed);
}

void StoreFile::remove() noexcept { ::unlink(path_.c_str()); }

std::string StoreFile::begun_text() const {
  return "begun " + time_text(header_.created) + " by " + process_text(header_.pid, header_.host.data());
}

bool StoreFile::read_identity(const FileStoreOptions& options, Deadline deadline) {
  lock(Access::Read, deadline);
  const std::unique_lock held(*this, std::adopt_lock);
  if (removed()) return false;
  read_header();
  if (header_.job != identity_hash(options.job_id))
    unauthorized("stale, or another job's: it is of job \"" + printable(header_.job_id.data(), 128) + "\", " +
                 begun_text() + "; this is job \"" + printable(options.job_id, 128) +
                 "\". Remove the file if that job is over, else name another path");
  if (header_.world_size >= 0 && options.world_size >= 0 && header_.world_size != options.world_size)
    unauthorized(joined("of a world of ", header_.world_size, " ranks, ", begun_text(),
                        "; this rank belongs to a world of ", options.world_size,
                        ". If an earlier run has left it (stale), remove it"));
  return true;
}

void StoreFile::read_header() {
  const std::string bytes = read_at(0, sizeof(StoreFileHeader));
  if (bytes.empty()) half_written("it is empty, so another program made it beforehand, or its file system has lost it");
  const StoreFileHeader ours;
  if (!bytes_of(ours).substr(0, ours.magic.size()).starts_with(bytes.substr(0, ours.magic.size())))
    foreign("it begins with " + quote_bytes(std::as_bytes(std::span(bytes))) +
            ", which is no file of a Tutti store; it was left as it is. Name another path, or remove it");
  if (bytes.size() < sizeof header_)
    half_written(joined("it ends after ", bytes.size(), " of ", sizeof header_, " bytes of its header"));
  std::memcpy(&header_, bytes.data(), sizeof header_);
  header_.host.back() = header_.job_id.back() = '\0';
  if (header_.version != ours.version)
    foreign(joined("it has version ", header_.version, " of the format, and this program knows version ", ours.version,
                   "; it was left as it is. Name another path, or remove it"));
  struct stat info {};
  if (::fstat(file_.get(), &info) != 0) cannot("look at", errno);
  if (header_.committed < sizeof header_)
    half_written("its header says that its records end at byte " + std::to_string(header_.committed));
  if (header_.committed > static_cast<std::uint64_t>(info.st_size))
    half_written(joined("its records should reach to byte ", header_.committed, ", but it has ", info.st_size));
}

void StoreFile::apply_records(const std::string& bytes, std::uint64_t offset, KeyMap& map) const {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::string where = "the record at byte " + std::to_string(offset + at);
    const std::string_view rest = std::string_view(bytes).substr(at);
    if (rest.size() < kRecordFixedBytes) half_written(where + " ends within its own header");
    const auto record = std::as_bytes(std::span(rest));
    const StoreHeader header = decode_store_header(record.subspan<kChecksumBytes, kStoreHeaderBytes>());
    const std::size_t record_bytes = kRecordFixedBytes + header.body_bytes;
    if (record_bytes > rest.size()) half_written(joined(where, " has ", rest.size(), " of ", record_bytes, " bytes"));
    const std::uint64_t checksum = identity_hash(rest.substr(kChecksumBytes, record_bytes - kChecksumBytes));
    if (std::memcmp(rest.data(), &checksum, kChecksumBytes) != 0)
      half_written(where + " is damaged: its bytes do not have the checksum that it names");
    const StoreRequest request{static_cast<StoreOp>(header.code),
                               decode_store_body(record.subspan(kRecordFixedBytes, header.body_bytes))};
    check_request(request);
    map.apply(request);
    at += record_bytes;
  }
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

void StoreFile::write_at(std::string_view bytes, std::uint64_t offset) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count =
        ::pwrite(file_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno != EINTR) cannot("write " + std::to_string(bytes.size()) + " bytes to", errno);
    if (count > 0) done += static_cast<std::size_t>(count);
  }
}

void StoreFile::cannot(const std::string& verb, int error_number) const {
  throw_errno("cannot " + verb + " the store file " + path_, error_number);
}

void StoreFile::foreign(const std::string& found) const {
  throw Error(ErrorCode::Protocol, "the store file ", path_, " is foreign: ", found);
}

void StoreFile::half_written(const std::string& found) const {
  throw Error(ErrorCode::Protocol, "the store file ", path_, " is half-written: ", found,
              ". Remove it and start the job again; the first rank makes it anew");
}

void StoreFile::unauthorized(const std::string& found) const {
  throw Error(ErrorCode::Unauthorized, "the store file ", path_, " is ", found);
}

}  // namespace tutti::comm
