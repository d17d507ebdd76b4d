#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/store/file_store.h>
#include <tutti/comm/store/store_file.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/wire/job_secret.h>
#include <unistd.h>

#include <optional>
#include <sstream>
#include <thread>

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGoodbyeLimit{2000};
constexpr milliseconds kFirstPause{1}, kLongestPause{10};  // between two reads of the file

std::string lost_key(int rank) { return kLostKeyPrefix + std::to_string(rank); }
std::string member_key(int rank) { return "tutti/file/rank/" + std::to_string(rank); }

/// Tells this process from all others: hosts and pids come again, in containers even together.
const std::string& process_token() {
  static const auto& token = *new std::string(new_job_secret().substr(0, 16));
  return token;
}

/// A rank that has joined: the process that it is, and how many stores that has open. In the file "host pid token
/// open".
struct Member {
  std::string host = host_name();
  std::uint64_t pid = static_cast<std::uint64_t>(::getpid());
  std::string token = process_token();
  int open = 0;

  std::string text() const { return joined(host, " ", pid, " ", token, " ", open); }
};

std::optional<Member> member_of(const KeyMap& map, int rank) {
  const std::string* text = map.find(member_key(rank));
  if (text == nullptr) return std::nullopt;
  Member member;
  std::istringstream(*text) >> member.host >> member.pid >> member.token >> member.open;
  return member;
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
    refuse_forked_child(owner_pid_, "FileStore");
    const std::string text = request_text(request);
    if (changes(request.op)) {
      const auto held = use(StoreFile::Access::Write, text, deadline);
      return write(request);
    }
    const auto start = Deadline::Clock::now();
    for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      std::vector<int> lost;
      {
        const auto held = use(StoreFile::Access::Read, text, deadline);
        const auto& keys = request.body.strings;
        lost = newly_lost(keys);
        if (lost.empty() && (!waits(request.op) || map_.has_all(keys))) return map_.apply(request);
        if (lost.empty() && deadline.expired()) {
          throw Error(ErrorCode::Timeout, missing_keys_text(map_.missing(keys), keys.size(), elapsed_seconds(start)),
                      " in the store file ", path());
        }
      }
      if (lost.empty()) {
        std::this_thread::sleep_until(deadline.earlier_of(Deadline::after(pause)).time_point());
      } else {
        const auto held = use(StoreFile::Access::Write, text, deadline);
        mark_lost(lost);
      }
    }
  }

 private:
  /// The right to use file and map, which has caught up with the file: of one thread of one process.
  std::unique_lock<StoreFile> use(StoreFile::Access access, const std::string& text, Deadline deadline) {
    try {
      file_.lock(access, deadline);
      std::unique_lock held(file_, std::adopt_lock);
      file_.catch_up(map_);
      return held;
    } catch (const Error& error) {
      throw Error(error.code(), text, ": ", error.what());
    }
  }

  /// Requests that have changed nothing leave no record. Within a use() for writing, as what follows.
  StoreResult write(const StoreRequest& request) {
    StoreResult result = map_.apply(request);
    const bool unchanged = (request.op == StoreOp::Delete && result.number == 0) ||
                           (request.op == StoreOp::CompareSet && result.strings[0] != request.body.strings[2]);
    if (!unchanged) file_.append(request);
    return result;
  }

  void set(std::string_view key, std::string_view value) { write({StoreOp::Set, {0, {key, value}}}); }

  /// False if the last rank of an earlier round has just removed the file.
  bool join(Deadline deadline) {
    const auto held = use(StoreFile::Access::Write, "join \"" + member_key(options_.rank) + '"', deadline);
    if (file_.removed()) return false;
    Member self = member_of(map_, options_.rank).value_or(Member());
    if (self.pid != Member().pid || self.token != process_token()) throw_stale(self);  // a fork has the same token
    file_.hold_presence(options_.rank);  // before others can see that this rank is here
    ++self.open;
    set(member_key(options_.rank), self.text());
    return true;
  }

  [[noreturn]] void throw_stale(const Member& other) const {
    throw Error(ErrorCode::Unauthorized, "the store file ", path(), " is stale: rank ", options_.rank,
                " has joined it already, as ", process_text(other.pid, other.host),
                file_.present(options_.rank) ? " (it still has the file open)" : "", "; this is ",
                process_text(Member().pid, host_name()), ". An earlier run of job \"", options_.job_id,
                "\" has left it: remove it. (TUTTI_JOB_ID, another for every run, tells runs apart)");
  }

  /// The last rank to leave in good order removes the file.
  void leave(Deadline deadline) {
    const auto held = use(StoreFile::Access::Write, "leave", deadline);
    Member self = member_of(map_, options_.rank).value();
    --self.open;
    set(member_key(options_.rank), self.text());
    bool all_have_left = options_.world_size > 0;
    for (int rank = 0; rank < options_.world_size; ++rank)
      all_have_left = all_have_left && member_of(map_, rank).value_or(Member{.open = 1}).open == 0;
    if (all_have_left) file_.remove();
  }

  /// The ranks whose process has died without a goodbye, of those whose loss `keys` ask for: all by "tutti/lost".
  std::vector<int> newly_lost(std::span<const std::string_view> keys) const {
    std::vector<int> lost;
    if (std::ranges::none_of(keys, [](auto key) { return key.starts_with(kLostRanksKey); })) return lost;
    const bool any = std::ranges::find(keys, kLostRanksKey) != keys.end();
    for (int rank = 0; rank < options_.world_size; ++rank) {
      const bool asked = any || std::ranges::find(keys, lost_key(rank)) != keys.end();
      if (asked && rank != options_.rank && member_of(map_, rank).value_or(Member()).open != 0 &&
          map_.find(lost_key(rank)) == nullptr && !file_.present(rank))
        lost.push_back(rank);
    }
    return lost;
  }

  /// Sets the keys that tell of these ranks, of which another process may have marked some meanwhile.
  void mark_lost(const std::vector<int>& ranks) {
    for (const int rank : ranks) {
      const Member member = member_of(map_, rank).value_or(Member());
      set(lost_key(rank), joined("rank ", rank, " (pid ", member.pid, ", host ", member.host,
                                 ") is gone: its process has ended without a goodbye"));
    }
    std::string all;
    for (int rank = 0; rank < options_.world_size; ++rank)
      if (map_.find(lost_key(rank)) != nullptr) all += (all.empty() ? "" : " ") + std::to_string(rank);
    set(kLostRanksKey, all);
  }

  const pid_t owner_pid_;
  const FileStoreOptions options_;
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
