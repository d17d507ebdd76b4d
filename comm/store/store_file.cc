#include <fcntl.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/store/store_file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace tutti::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kFirstLockPause{50};
constexpr microseconds kLongestLockPause{2000};
constexpr milliseconds kLockGrace{200};  // a deadline that is passing while others hold the lock is no reason to fail

// The log is written anew when it is longer than this and than so many times its present values.
constexpr std::uint64_t kSmallLog = std::uint64_t{1} << 20;
constexpr std::uint64_t kHistoryFactor = 4;

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

void StoreFile::write_header(const StoreFileHeader& header) {
  const auto bytes = encode_store_file_header(header);
  write_at(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), 0);
  header_ = header;
}

void StoreFile::catch_up(KeyMap& map) {
  read_header();
  if (!loaded_ || header_.generation != loaded_generation_ || applied_ > header_.committed) {
    map = KeyMap();
    applied_ = header_.start;
  }
  if (loaded_ && applied_ == header_.committed && header_.generation == loaded_generation_) return;
  loaded_ = false;  // until all of it is applied
  const std::string bytes = read_at(applied_, header_.committed - applied_);
  std::size_t at = 0;
  while (const auto record = next_store_record(bytes, at, applied_, path_)) {
    switch (record->kind) {
      case StoreRecordKind::Set:
        map.set(record->key, record->value);
        break;
      case StoreRecordKind::Delete:
        map.erase(record->key);
        break;
      case StoreRecordKind::Append:
        map.append(record->key, record->value);
        break;
    }
  }
  applied_ = header_.committed;
  loaded_generation_ = header_.generation;
  loaded_ = true;
}

void StoreFile::commit(const std::string& records, const KeyMap& map) {
  loaded_ = false;  // the map shows what the file does not
  write_at(records, header_.committed);
  StoreFileHeader next = header_;
  next.committed += records.size();
  write_header(next);
  applied_ = header_.committed;
  loaded_ = true;
  try {
    write_anew(map);
  } catch (const Error& error) {  // the records are safe all the same
    log(LogLevel::Warn, std::string("could not shorten the log: ") + error.what());
    look_again_at_ = 2 * (header_.committed - header_.start);
  }
}

void StoreFile::write_anew(const KeyMap& map) {
  const std::uint64_t log_bytes = header_.committed - header_.start;
  if (log_bytes < std::max(look_again_at_, kSmallLog)) return;
  std::uint64_t present_bytes = 0;
  map.visit([&](std::string_view key, std::string_view value) {
    present_bytes += kStoreRecordHeaderBytes + key.size() + value.size();
  });
  look_again_at_ = kHistoryFactor * present_bytes;
  if (log_bytes < look_again_at_) return;
  std::string records;
  records.reserve(present_bytes);
  map.visit([&](std::string_view key, std::string_view value) {
    append_store_record(records, {StoreRecordKind::Set, key, value});
  });
  StoreFileHeader next = header_;
  const bool fits_before = header_.start - kStoreFileHeaderBytes >= present_bytes;
  next.start = fits_before ? kStoreFileHeaderBytes : header_.committed;
  next.committed = next.start + present_bytes;
  ++next.generation;
  write_at(records, next.start);
  write_header(next);
  applied_ = header_.committed;
  loaded_generation_ = header_.generation;
  [[maybe_unused]] const int kept_longer = ::ftruncate(file_.get(), static_cast<off_t>(header_.committed));
}

void StoreFile::remove() noexcept { ::unlink(path_.c_str()); }

}  // namespace tutti::comm
