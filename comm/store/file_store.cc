#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/store/file_store.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_file.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/wire/job_secret.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <sstream>
#include <thread>

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGoodbyeLimit{2000};
constexpr milliseconds kFirstPause{1}, kLongestPause{10};  // between two reads of the file
constexpr milliseconds kTurnGrace{200};

// The process as which a rank has joined ("host pid token"), and how many stores it has open.
std::string joined_key(int rank) { return "tutti/file/joined/" + std::to_string(rank); }
std::string here_key(int rank) { return "tutti/file/here/" + std::to_string(rank); }
std::string lost_key(int rank) { return kLostKeyPrefix + std::to_string(rank); }

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
  static const auto& token = *new std::string(new_job_secret().substr(0, 16));
  return token;
}

std::string own_identity() { return host_name() + " " + std::to_string(::getpid()) + " " + process_token(); }

std::pair<std::string, std::uint64_t> host_and_pid(const std::string& identity) {
  std::istringstream in(identity);
  std::pair<std::string, std::uint64_t> process;
  in >> process.first >> process.second;
  return process;
}

std::string lost_text(const KeyMap& map, int rank) {
  const auto [host, pid] = host_and_pid(*map.find(joined_key(rank)));
  return "rank " + std::to_string(rank) + " (pid " + std::to_string(pid) + ", host " + host +
         ") is gone: its process has ended without a goodbye";
}

}  // namespace

class FileStore::Impl {
 public:
  Impl(const FileStoreOptions& options, Deadline deadline)
      : owner_pid_(::getpid()), options_(options), file_(options_, deadline) {
    while (options_.rank >= 0 && !join(deadline)) file_.open_again(options_, deadline);
  }

  ~Impl() {
    if (::getpid() != owner_pid_ || options_.rank < 0) return;  // a child only drops its copy of the descriptor
    try {
      leave(Deadline::after(kGoodbyeLimit));
    } catch (const std::exception&) {
      // The file stays, and the next run is told that it is stale.
    }
  }

  const std::string& path() const { return file_.path(); }

  StoreResult call(const StoreRequest& request, Deadline deadline) {
    const std::string text = request_text(request);
    if (changes(request.op)) {
      const Use use(*this, StoreFile::Access::Write, text, deadline);
      return write(request);
    }
    const auto start = Deadline::Clock::now();
    for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      mark_lost(request, text, deadline);
      {
        const Use use(*this, StoreFile::Access::Read, text, deadline);
        const auto& keys = request.body.strings;
        if (!waits(request.op) || map_.has_all(keys)) return map_.apply(request);
        if (deadline.expired()) {
          const std::chrono::duration<double> waited = Deadline::Clock::now() - start;
          throw Error(ErrorCode::Timeout, missing_keys_text(map_.missing(keys), keys.size(), waited.count()) +
                                              " in the store file " + path());
        }
      }
      std::this_thread::sleep_until(deadline.earlier_of(Deadline::after(pause)).time_point());
    }
  }

 private:
  /// The right to use file and map, which has caught up with the file: of one thread of the process, and of one
  /// process.
  class Use {
   public:
    Use(Impl& store, StoreFile::Access access, const std::string& text, Deadline deadline) : store_(store) {
      store_.take_turn(text, deadline);
      try {
        store_.file_.lock(access, deadline);
        store_.file_.catch_up(store_.map_);
      } catch (const Error& error) {
        end();
        throw Error(error.code(), text + ": " + error.what());
      } catch (...) {
        end();
        throw;
      }
    }
    ~Use() { end(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    void end() {
      store_.file_.unlock();
      const std::lock_guard lock(store_.mutex_);
      store_.busy_ = false;
      store_.released_.notify_one();
    }
    Impl& store_;
  };

  void take_turn(const std::string& text, Deadline deadline) {
    if (::getpid() != owner_pid_)
      throw Error(ErrorCode::InvalidArgument, "this FileStore belongs to process " + std::to_string(owner_pid_) +
                                                  "; process " + std::to_string(::getpid()) +
                                                  " was forked from it and must make its own");
    std::unique_lock lock(mutex_);
    const auto until = std::max(deadline.time_point(), Deadline::Clock::now() + kTurnGrace);
    if (!released_.wait_until(lock, until, [this] { return !busy_; }))
      throw Error(ErrorCode::Timeout, text + ": timed out: another thread of this process has been using the store " +
                                          "file " + path() + " for all that time");
    busy_ = true;
  }

  /// Requests that have changed nothing leave no record. Within a Use for writing, as what follows.
  StoreResult write(const StoreRequest& request) {
    StoreResult result = map_.apply(request);
    const bool unchanged = (request.op == StoreOp::Delete && result.number == 0) ||
                           (request.op == StoreOp::CompareSet && result.strings[0] != request.body.strings[2]);
    if (!unchanged) file_.append(request);
    return result;
  }

  std::int64_t open_stores(int rank) const {
    const std::string* here = map_.find(here_key(rank));
    return here == nullptr ? 0 : std::strtoll(here->c_str(), nullptr, 10);
  }

  /// False if the last rank of an earlier round has just removed the file.
  bool join(Deadline deadline) {
    const std::string key = joined_key(options_.rank), self = own_identity();
    const Use use(*this, StoreFile::Access::Write, "join \"" + key + '"', deadline);
    if (file_.removed()) return false;
    if (const std::string* other = map_.find(key); other != nullptr && *other != self) throw_stale(*other);
    file_.hold_presence(options_.rank);  // before others can see that this rank is here
    const std::string here = here_key(options_.rank), count = std::to_string(open_stores(options_.rank) + 1);
    write({StoreOp::Set, {0, {key, self, here, count}}});
    return true;
  }

  [[noreturn]] void throw_stale(const std::string& other) const {
    const auto [host, pid] = host_and_pid(other);
    throw Error(ErrorCode::Unauthorized,
                "the store file " + path() + " is stale: rank " + std::to_string(options_.rank) +
                    " has joined it already, as " + process_text(pid, host) +
                    (file_.present(options_.rank) ? " (it still has the file open)" : "") + "; this is " +
                    process_text(static_cast<std::uint64_t>(::getpid()), host_name()) + ". An earlier run of job \"" +
                    options_.job_id +
                    "\" has left it: remove it. (TUTTI_JOB_ID, another for every run, tells runs apart)");
  }

  /// The last rank to leave in good order removes the file.
  void leave(Deadline deadline) {
    const std::string here = here_key(options_.rank);
    const Use use(*this, StoreFile::Access::Write, "leave", deadline);
    write({StoreOp::Add, {-1, {here}}});
    bool all_have_left = options_.world_size > 0;
    for (int rank = 0; rank < options_.world_size; ++rank)
      all_have_left = all_have_left && map_.find(here_key(rank)) != nullptr && open_stores(rank) == 0;
    if (all_have_left) file_.remove();
  }

  /// If the request's keys tell of lost ranks: sets those of ranks whose process has died without a goodbye.
  void mark_lost(const StoreRequest& request, const std::string& text, Deadline deadline) {
    std::vector<int> asked;
    for (const std::string_view key : request.body.strings) {
      const auto ranks = ranks_of_lost_key(key, options_.world_size);
      asked.insert(asked.end(), ranks.begin(), ranks.end());
    }
    if (asked.empty()) return;
    {
      const Use use(*this, StoreFile::Access::Read, text, deadline);
      if (newly_lost(asked).empty()) return;
    }
    const Use use(*this, StoreFile::Access::Write, text, deadline);
    for (const int rank : newly_lost(asked)) {
      const std::string key = lost_key(rank), how = lost_text(map_, rank);
      write({StoreOp::Set, {0, {key, how}}});
    }
    const std::string ranks = lost_ranks();
    if (!ranks.empty()) write({StoreOp::Set, {0, {kLostRanksKey, ranks}}});
  }

  std::vector<int> newly_lost(const std::vector<int>& asked) const {
    std::vector<int> lost;
    for (const int rank : asked)
      if (rank != options_.rank && open_stores(rank) != 0 && map_.find(lost_key(rank)) == nullptr &&
          !file_.present(rank))
        lost.push_back(rank);
    return lost;
  }

  std::string lost_ranks() const {
    std::string ranks;
    for (int rank = 0; rank < options_.world_size; ++rank)
      if (map_.find(lost_key(rank)) != nullptr) ranks += (ranks.empty() ? "" : " ") + std::to_string(rank);
    return ranks;
  }

  const pid_t owner_pid_;
  const FileStoreOptions options_;
  std::mutex mutex_;
  std::condition_variable released_;
  bool busy_ = false;  // a thread uses what is below
  StoreFile file_;
  KeyMap map_;
};

FileStore::FileStore(const FileStoreOptions& options, Deadline deadline)
    : impl_(std::make_unique<Impl>(options, deadline)) {}

FileStore::~FileStore() = default;

std::string FileStore::path() const { return impl_->path(); }

StoreResult FileStore::do_call(const StoreRequest& request, Deadline deadline) {
  return impl_->call(request, deadline);
}

}  // namespace tutti::comm
