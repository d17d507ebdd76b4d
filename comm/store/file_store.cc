#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/bootstrap/job_secret.h>
#include <tutti/comm/store/file_store.h>
#include <tutti/comm/store/store_file.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <utility>

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{1};
constexpr milliseconds kLongestPause{10};
constexpr milliseconds kGoodbyeLimit{2000};

// Who is here: "tutti/file/joined/<rank>" = "host pid token", "tutti/file/here/<rank>" = how many stores it has open.
std::string joined_key(int rank) { return "tutti/file/joined/" + std::to_string(rank); }
std::string here_key(int rank) { return "tutti/file/here/" + std::to_string(rank); }

/// The ranks whose loss a key tells of: one for "tutti/lost/<rank>", all for "tutti/lost", none for others.
std::vector<int> ranks_of_lost_key(std::string_view key, int world_size) {
  constexpr std::string_view kPrefix = kLostKeyPrefix;
  std::vector<int> ranks;
  if (key == kLostRanksKey) {
    for (int rank = 0; rank < world_size; ++rank) ranks.push_back(rank);
  } else if (key.starts_with(kPrefix)) {
    int rank = 0;
    const auto [end, status] = std::from_chars(key.data() + kPrefix.size(), key.data() + key.size(), rank);
    if (status == std::errc() && end == key.data() + key.size() && rank >= 0) ranks.push_back(rank);
  }
  return ranks;
}

/// Tells this process from all others: hosts and pids come again, in containers even together.
const std::string& process_token() {
  static const std::string token = new_job_secret().substr(0, 16);
  return token;
}

std::string own_identity() { return host_name() + " " + std::to_string(::getpid()) + " " + process_token(); }

}  // namespace

class FileStore::Impl {
 public:
  Impl(const FileStoreOptions& options, Deadline deadline)
      : options_(options), owner_pid_(::getpid()), file_(options, deadline) {
    while (options_.rank >= 0 && !join(deadline)) file_.open_again(options_, deadline);
  }

  ~Impl() {
    if (::getpid() != owner_pid_ || options_.rank < 0) return;  // a forked child only drops its copy of the descriptor
    try {
      leave(Deadline::after(kGoodbyeLimit));
    } catch (const std::exception&) {
      // The file stays, and the next run is told that it is stale.
    }
  }

  const std::string& path() const { return file_.path(); }

  /// Looks at the present values.
  template <typename Look>
  auto read(const char* verb, std::string_view key, Deadline deadline, const Look& look) {
    const Use use(*this, StoreFile::Access::Read, verb, key, deadline);
    return look(std::as_const(map_));
  }

  /// `change` changes the map, and appends to its second argument the records that say how.
  template <typename Change>
  auto write(const char* verb, std::string_view key, Deadline deadline, const Change& change) {
    const Use use(*this, StoreFile::Access::Write, verb, key, deadline);
    std::string records;
    auto result = change(map_, records);
    if (!records.empty()) file_.commit(records, map_);
    return result;
  }

  /// Looks until all keys are there; returns what `look` then makes of the values.
  template <typename Look>
  auto await(const char* verb, std::span<const std::string> keys, Deadline deadline, const Look& look) {
    const auto start = Deadline::Clock::now();
    const std::string_view first = keys.empty() ? std::string_view() : std::string_view(keys[0]);
    milliseconds pause = kFirstPause;
    for (;;) {
      std::uint64_t seen = 0;
      mark_lost(keys, deadline);
      {
        const Use use(*this, StoreFile::Access::Read, verb, first, deadline);
        if (all_present(keys)) return look(std::as_const(map_));
        if (deadline.expired()) throw_missing(keys, start);
        seen = use.number();
      }
      sleep_until_changed(seen, deadline.earlier_of(Deadline::after(pause)));
      pause = std::min(2 * pause, kLongestPause);
    }
  }

  /// If the keys tell of lost ranks: sets those of ranks whose process has died without a goodbye.
  void mark_lost(std::span<const std::string> keys, Deadline deadline) {
    std::vector<int> asked;
    for (const std::string& key : keys) {
      const auto ranks = ranks_of_lost_key(key, options_.world_size);
      asked.insert(asked.end(), ranks.begin(), ranks.end());
    }
    if (asked.empty() || read("look for", keys[0], deadline, [&](const KeyMap&) { return newly_lost(asked).empty(); }))
      return;
    write("mark", keys[0], deadline, [&](KeyMap& map, std::string& records) {
      const std::vector<int> lost = newly_lost(asked);
      for (const int rank : lost) set_and_record(map, records, kLostKeyPrefix + std::to_string(rank), lost_text(rank));
      if (!lost.empty()) set_and_record(map, records, kLostRanksKey, lost_ranks());
      return 0;
    });
  }

  bool all_present(std::span<const std::string> keys) const {
    return std::all_of(keys.begin(), keys.end(), [this](const std::string& key) { return map_.find(key) != nullptr; });
  }

 private:
  /// The right to use file and map: of this thread among the process's, then of this process among all.
  class Use {
   public:
    Use(Impl& impl, StoreFile::Access access, const char* verb, std::string_view key, Deadline deadline)
        : impl_(impl), access_(access) {
      impl_.refuse_forked_child();
      impl_.take_turn(deadline);
      try {
        impl_.file_.lock(access, deadline);
        impl_.file_.catch_up(impl_.map_);
      } catch (const Error& error) {
        end();
        const std::string_view keys[] = {key};
        throw Error(error.code(),
                    verb + std::string(key.empty() ? "" : " " + quote_keys(keys, 1)) + ": " + error.what());
      } catch (...) {
        end();
        throw;
      }
    }
    ~Use() { end(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    std::uint64_t number() const { return impl_.writes_; }

   private:
    void end() {
      impl_.file_.unlock();
      impl_.end_turn(access_ == StoreFile::Access::Write);
    }
    Impl& impl_;
    const StoreFile::Access access_;
  };

  void refuse_forked_child() const {
    const pid_t self = ::getpid();
    if (self == owner_pid_) return;
    throw Error(ErrorCode::InvalidArgument, "this FileStore belongs to process " + std::to_string(owner_pid_) +
                                                "; process " + std::to_string(self) +
                                                " was forked from it and must make its own");
  }

  void take_turn(Deadline deadline) {
    std::unique_lock lock(mutex_);
    const Deadline until(std::max(deadline.time_point(), Deadline::Clock::now() + kLongestPause * 20));
    if (!changed_.wait_until(lock, until.time_point(), [this] { return !busy_; }))
      throw Error(ErrorCode::Timeout, "timed out: another thread of this process has been using the store file " +
                                          file_.path() + " for all that time");
    busy_ = true;
  }

  void end_turn(bool wrote) {
    const std::lock_guard lock(mutex_);
    busy_ = false;
    if (wrote) ++writes_;
    changed_.notify_all();
  }

  void sleep_until_changed(std::uint64_t seen, Deadline deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.time_point(), [&] { return writes_ != seen; });
  }

  static void set_and_record(KeyMap& map, std::string& records, std::string_view key, std::string_view value) {
    map.set(key, value);
    append_store_record(records, {StoreRecordKind::Set, key, value});
  }

  std::vector<int> newly_lost(const std::vector<int>& asked) const {
    std::vector<int> lost;
    for (const int rank : asked) {
      const std::string* here = map_.find(here_key(rank));
      const bool may_be_lost = rank != options_.rank && here != nullptr && *here != "0";
      if (!may_be_lost || map_.find(kLostKeyPrefix + std::to_string(rank)) != nullptr) continue;
      if (!file_.present(rank)) lost.push_back(rank);
    }
    return lost;
  }

  std::string lost_text(int rank) const {
    const auto [host, pid] = joined_as(*map_.find(joined_key(rank)));
    return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + ", host " + host +
           ") is gone: its process has ended without a goodbye";
  }

  std::string lost_ranks() const {
    std::string ranks;
    for (int rank = 0; rank < options_.world_size; ++rank) {
      if (map_.find(kLostKeyPrefix + std::to_string(rank)) == nullptr) continue;
      ranks += (ranks.empty() ? "" : " ") + std::to_string(rank);
    }
    return ranks;
  }

  static std::pair<std::string, std::uint64_t> joined_as(const std::string& identity) {
    std::istringstream in(identity);
    std::pair<std::string, std::uint64_t> process;
    in >> process.first >> process.second;
    return process;
  }

  [[noreturn]] void throw_missing(std::span<const std::string> keys, Deadline::Clock::time_point start) const {
    std::vector<std::string_view> missing;
    std::size_t count = 0;
    for (const std::string& key : keys) {
      if (map_.find(key) != nullptr) continue;
      if (++count <= kMissingKeysShown) missing.push_back(key);
    }
    const std::chrono::duration<double> waited = Deadline::Clock::now() - start;
    throw Error(ErrorCode::Timeout,
                missing_keys_text(missing, count, keys.size(), waited.count()) + " in the store file " + file_.path());
  }

  /// False if the last rank of those who were here has just removed the file.
  bool join(Deadline deadline) {
    const std::string key = joined_key(options_.rank);
    return write("join", key, deadline, [&](KeyMap& map, std::string& records) {
      if (file_.removed()) return false;
      const std::string self = own_identity();
      if (const std::string* other = map.find(key); other != nullptr && *other != self) throw_stale(*other);
      file_.hold_presence(options_.rank);  // before anybody can see that we are here
      set_and_record(map, records, key, self);
      add_to(map, records, here_key(options_.rank), 1);
      return true;
    });
  }

  [[noreturn]] void throw_stale(const std::string& other) const {
    const auto [host, pid] = joined_as(other);
    throw Error(ErrorCode::Unauthorized,
                "the store file " + file_.path() + " is stale: rank " + std::to_string(options_.rank) +
                    " has joined it already, as " + process_text(pid, host) +
                    (file_.present(options_.rank) ? " (it still has the file open)" : "") + "; this is " +
                    process_text(static_cast<std::uint64_t>(::getpid()), host_name()) + ". An earlier run of job \"" +
                    options_.job_id +
                    "\" has left it: remove it. (TUTTI_JOB_ID, another for every run, tells runs apart)");
  }

  /// The last rank to leave in good order takes the file with it.
  void leave(Deadline deadline) {
    write("leave", joined_key(options_.rank), deadline, [&](KeyMap& map, std::string& records) {
      const std::int64_t here = add_to(map, records, here_key(options_.rank), -1);
      if (everybody_has_left()) file_.remove();
      return here;
    });
  }

  bool everybody_has_left() const {
    for (int rank = 0; rank < options_.world_size; ++rank) {
      const std::string* here = map_.find(here_key(rank));
      if (here == nullptr || *here != "0") return false;
    }
    return options_.world_size > 0;
  }

 public:
  static std::int64_t add_to(KeyMap& map, std::string& records, std::string_view key, std::int64_t delta) {
    const std::int64_t value = map.add(key, delta);
    append_store_record(records, {StoreRecordKind::Set, key, std::to_string(value)});
    return value;
  }

 private:
  const FileStoreOptions options_;
  const pid_t owner_pid_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;         // a thread uses what is below
  std::uint64_t writes_ = 0;  // of this object; only a hint that it is worth looking again
  StoreFile file_;
  KeyMap map_;
};

FileStore::FileStore(const FileStoreOptions& options, Deadline deadline)
    : impl_(std::make_unique<Impl>(options, deadline)) {}

FileStore::~FileStore() = default;

std::string FileStore::path() const { return impl_->path(); }

void FileStore::set(std::string_view key, std::string_view value, Deadline deadline) {
  impl_->write("set", key, deadline, [&](KeyMap& map, std::string& records) {
    map.set(key, value);
    append_store_record(records, {StoreRecordKind::Set, key, value});
    return 0;
  });
}

std::string FileStore::get(std::string_view key, Deadline deadline) {
  check_key(key);
  const std::string name(key);
  return impl_->await("get", std::span(&name, 1), deadline, [&](const KeyMap& map) { return *map.find(name); });
}

void FileStore::wait(std::span<const std::string> keys, Deadline deadline) {
  check_key_count(keys.size());
  impl_->await("wait for", keys, deadline, [](const KeyMap&) { return 0; });
}

std::int64_t FileStore::add(std::string_view key, std::int64_t delta, Deadline deadline) {
  return impl_->write("add to", key, deadline,
                      [&](KeyMap& map, std::string& records) { return Impl::add_to(map, records, key, delta); });
}

std::string FileStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                                   Deadline deadline) {
  check_value(key, desired);
  return impl_->write("compare_set of", key, deadline, [&](KeyMap& map, std::string& records) {
    const std::string* present = map.find(key);
    const bool matches = (present == nullptr ? std::string_view() : std::string_view(*present)) == expected;
    std::string value = map.compare_set(key, expected, desired);
    if (matches) append_store_record(records, {StoreRecordKind::Set, key, desired});
    return value;
  });
}

bool FileStore::check(std::span<const std::string> keys, Deadline deadline) {
  check_key_count(keys.size());
  const std::string_view first = keys.empty() ? std::string_view() : std::string_view(keys[0]);
  impl_->mark_lost(keys, deadline);
  return impl_->read("check of", first, deadline, [&](const KeyMap&) { return impl_->all_present(keys); });
}

bool FileStore::delete_key(std::string_view key, Deadline deadline) {
  return impl_->write("delete of", key, deadline, [&](KeyMap& map, std::string& records) {
    const bool existed = map.erase(key);
    if (existed) append_store_record(records, {StoreRecordKind::Delete, key, {}});
    return existed;
  });
}

std::int64_t FileStore::num_keys(Deadline deadline) {
  return impl_->read("num_keys", {}, deadline, [](const KeyMap& map) { return static_cast<std::int64_t>(map.size()); });
}

void FileStore::append(std::string_view key, std::string_view value, Deadline deadline) {
  impl_->write("append to", key, deadline, [&](KeyMap& map, std::string& records) {
    map.append(key, value);
    append_store_record(records, {StoreRecordKind::Append, key, value});
    return 0;
  });
}

std::vector<std::string> FileStore::multi_get(std::span<const std::string> keys, Deadline deadline) {
  check_key_count(keys.size());
  return impl_->await("multi_get of", keys, deadline, [&](const KeyMap& map) {
    std::vector<std::string> values;
    values.reserve(keys.size());
    for (const std::string& key : keys) values.push_back(*map.find(key));
    return values;
  });
}

void FileStore::multi_set(std::span<const std::string> keys, std::span<const std::string> values, Deadline deadline) {
  check_same_length(keys.size(), values.size());
  check_key_count(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check_key(keys[i]);
    check_value(keys[i], values[i]);
  }
  if (keys.empty()) return;
  impl_->write("multi_set of", keys[0], deadline, [&](KeyMap& map, std::string& records) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      map.set(keys[i], values[i]);
      append_store_record(records, {StoreRecordKind::Set, keys[i], values[i]});
    }
    return 0;
  });
}

}  // namespace tutti::comm
