// FileMap: the values in a store's file, for all threads of this process. Internal to comm/store.
//
// Whoever looks has the file and this process's copy of the values for himself among the process's threads, and the
// file's lock among processes (store_file.h), and catches up with the file first.
//
// Thread-safety: any thread at any time. Who waits for a turn or a lock does so until the deadline, for a turn 0.2 s at
// least. A forked child gets InvalidArgument.
#pragma once

#include <tutti/comm/store/map_change.h>
#include <tutti/comm/store/store_file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tutti::comm {

class FileMap {
 public:
  /// Throws as FileStore's constructor.
  FileMap(const FileStoreOptions& options, Deadline deadline);

  /// To be used within read(), write() and await() only, but for path().
  StoreFile& file() { return file_; }
  const StoreFile& file() const { return file_; }

  bool is_forked_child() const { return ::getpid() != owner_pid_; }

  /// Returns what `look(map)` makes of the present values. `verb` and `key` are for errors: "get 'a': ...".
  template <typename Look>
  auto read(const char* verb, std::string_view key, Deadline deadline, const Look& look) {
    const Use use(*this, StoreFile::Access::Read, verb, key, deadline);
    return look(std::as_const(map_));
  }

  /// Returns what `change(MapChange&)` does; what it has changed is then in the file.
  template <typename Change>
  auto write(const char* verb, std::string_view key, Deadline deadline, const Change& change) {
    const Use use(*this, StoreFile::Access::Write, verb, key, deadline);
    MapChange changed(map_);
    auto result = change(changed);
    if (!changed.records().empty()) file_.commit(changed.records(), map_);
    return result;
  }

  /// Looks until all keys are there, calling `before_each_look()`, and returns what `look(map)` then makes of the
  /// values. Throws Timeout naming what is missing.
  template <typename BeforeEachLook, typename Look>
  auto await(const char* verb, std::span<const std::string> keys, Deadline deadline,
             const BeforeEachLook& before_each_look, const Look& look) {
    const auto start = Deadline::Clock::now();
    const std::string_view first = keys.empty() ? std::string_view() : std::string_view(keys[0]);
    std::chrono::milliseconds pause = kFirstPause;
    for (;;) {
      std::uint64_t seen = 0;
      before_each_look();
      {
        const Use use(*this, StoreFile::Access::Read, verb, first, deadline);
        if (map_.has_all(keys)) return look(std::as_const(map_));
        if (deadline.expired()) throw_missing(keys, start);
        seen = use.number();
      }
      sleep_until_changed(seen, deadline.earlier_of(Deadline::after(pause)));
      pause = std::min(2 * pause, kLongestPause);
    }
  }

 private:
  static constexpr std::chrono::milliseconds kFirstPause{1};
  static constexpr std::chrono::milliseconds kLongestPause{10};

  /// The right to use file and map: of this thread among the process's, then of this process among all.
  class Use {
   public:
    Use(FileMap& map, StoreFile::Access access, const char* verb, std::string_view key, Deadline deadline);
    ~Use() { end(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    std::uint64_t number() const { return map_.writes_; }

   private:
    void end();
    FileMap& map_;
    const StoreFile::Access access_;
  };

  void refuse_forked_child() const;
  void take_turn(Deadline deadline);
  void end_turn(bool wrote);
  void sleep_until_changed(std::uint64_t seen, Deadline deadline);
  [[noreturn]] void throw_missing(std::span<const std::string> keys, Deadline::Clock::time_point start) const;

  const pid_t owner_pid_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;         // a thread uses what is below
  std::uint64_t writes_ = 0;  // of this object; only a hint that it is worth looking again
  StoreFile file_;
  KeyMap map_;
};

}  // namespace tutti::comm
