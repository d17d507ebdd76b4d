// StoreFile: the file under a FileStore, as one process sees it: a lock and a log of the requests that changed
// something. Internal to comm/store. Layout: wire_format.md, "Store file".
//
// A writer holds the exclusive lock, writes its record behind the committed end, and then moves that end in one small
// write of the header: a process that is killed in between has written nothing. Readers hold the shared lock. What a
// file holds is checked like bytes from the wire: Protocol, naming the file, what is wrong with it and what to do.
//
// The locks are fcntl(2) locks that belong to the open file (F_OFD_SETLK): the kernel drops them when their process
// dies; they work between threads and objects of one process, too, which traditional record locks do not; and a client
// of NFS looks at the server's data afresh when it takes one, which no amount of reading or stat(2) makes it do.
// A process that is a rank also holds, as long as it lives, a shared lock of one byte far behind the end: others can
// tell that it has died, as the kernel tells them, also across hosts where the file system passes locks on. The file
// appears by link(2), complete or not at all, also over NFS, where O_EXCL once was not reliable.
//
// Thread-safety: lock() may be called from any thread, and gives one thread of one process the right to call the rest.
#pragma once

#include <sys/types.h>
#include <tutti/comm/store/file_store.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_protocol.h>
#include <tutti/comm/wire/socket.h>

#include <array>
#include <bit>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace tutti::comm {

/// The first bytes of the file, as they lie in it (little endian). Records are in bytes [sizeof(StoreFileHeader),
/// committed); what is beyond has no meaning. Both texts end in a zero.
struct StoreFileHeader {
  std::array<char, 8> magic{'\x89', 'T', 'U', 'T', 'T', 'I', 'F', 'S'};  // no text, nor UTF-8, begins with this byte
  std::uint32_t version = 3;
  std::int32_t world_size = -1;
  std::uint32_t pid = 0;  // of the process that made the file
  std::uint32_t reserved = 0;
  std::uint64_t created = 0;  // seconds since 1970
  std::uint64_t job = 0;      // identity_hash(job id)
  std::uint64_t committed = 256;
  std::array<std::uint64_t, 2> reserved_too{};
  std::array<char, 64> host{};
  std::array<char, 128> job_id{};  // may be cut; `job` tells ids apart
};
static_assert(sizeof(StoreFileHeader) == 256);
static_assert(std::endian::native == std::endian::little, "the header is written as it lies in memory");

/// "pid 71 on host a": of a process, with a word on whether it still runs where that can be seen.
std::string process_text(std::uint64_t pid, const std::string& host);

class StoreFile {
 public:
  /// Opens the file, or makes it, and checks its owner and job. Throws as FileStore's constructor.
  StoreFile(const FileStoreOptions& options, Deadline deadline);

  enum class Access { Read, Write };

  /// Waits until the file is locked; throws Timeout. unlock() never fails.
  void lock(Access access, Deadline deadline);
  void unlock() noexcept;

  /// Applies to `map` what others have written since the last time. Locked.
  void catch_up(KeyMap& map);

  /// Writes a request that `map` has carried out. Locked for writing. If it throws, nothing was written, and the next
  /// catch_up() builds the map anew.
  void append(const StoreRequest& request);

  /// Holds this rank's byte until the file is closed. Throws System.
  void hold_presence(int rank);

  /// Whether a process holds that rank's byte; true if that cannot be told. This object's own hold does not count.
  bool present(int rank) const;

  /// True if the file has no name any more: its last rank has left, and later ranks need another. Locked.
  bool removed() const;

  void open_again(const FileStoreOptions& options, Deadline deadline);

  /// Removes the file's name; processes that have it open keep it. Locked for writing. Never throws.
  void remove() noexcept;

  const std::string& path() const { return path_; }

 private:
  /// 0, or errno.
  int lock_byte(int type, off_t at) const;
  /// False if there is no such file.
  bool open_existing();
  void make(const FileStoreOptions& options);
  std::string begun_text() const;
  /// Throws if the file is not for us; false if it has been removed meanwhile.
  bool read_identity(const FileStoreOptions& options, Deadline deadline);
  void read_header();
  /// A record is a checksum, and a request as on the wire (store_protocol.h). `offset`: where `bytes` lie in the file.
  void apply_records(const std::string& bytes, std::uint64_t offset, KeyMap& map) const;
  std::string read_at(std::uint64_t offset, std::uint64_t count);
  void write_at(std::string_view bytes, std::uint64_t offset);
  [[noreturn]] void cannot(const std::string& verb, int error_number) const;
  [[noreturn]] void foreign(const std::string& found) const;
  [[noreturn]] void half_written(const std::string& found) const;
  [[noreturn]] void unauthorized(const std::string& found) const;
  std::string path_;
  std::mutex mutex_;  // held with the lock of the file
  Socket file_;       // an owned descriptor
  StoreFileHeader header_;
  std::uint64_t applied_ = 0;  // the map shows the records up to here; 0: it is to be built anew
};

}  // namespace tutti::comm
