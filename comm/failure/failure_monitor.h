// FailureMonitor: how the ranks of a group learn of each other's failures, through the store.
//
// Keys, all under "<group>/": "failure" holds the first cause (the first writer wins; all others repeat it);
// "waiting/<rank>" says what a rank has been waiting for, renewed while it waits. The store itself marks ranks whose
// process is gone (tcp_store_server.h).
//
// Thread-safety: all methods may be called from any thread. Each takes at most a few store round trips.
#pragma once

#include <tutti/comm/base/error.h>
#include <tutti/comm/store/store.h>
#include <tutti/comm/wire/frame.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti::comm {

class FailureMonitor {
 public:
  /// `describe` names a rank with host and pid. `world_ranks` is given for a sub-group: each rank's in the world.
  FailureMonitor(std::shared_ptr<Store> store, std::string group, int rank, int world_size,
                 std::function<std::string(int)> describe, std::vector<int> world_ranks = {});

  /// "rank 2/4: ", the beginning of every error text of this rank; in a sub-group "rank 0/2 of group
  /// 'world/split1/7' (rank 3 of the world): ".
  const std::string& prefix() const { return prefix_; }
  std::string describe(int rank) const { return describe_(rank); }
  /// "rank 2"; in a sub-group "rank 0 (rank 3 of the world)".
  std::string short_name(int rank) const;

  /// Records `cause` unless another rank was first. Returns the first cause. Never throws: a store that cannot be
  /// reached leaves the local cause as the first one.
  std::string report(const std::string& cause) noexcept;

  /// Throws Aborted with the first cause if one is recorded, PeerLost if one of `awaited` is known to be dead or the
  /// store itself is gone, Timeout if the store does not answer (its process may be frozen).
  void check(std::span<const int> awaited);

  /// A connection to one of `suspects` broke, which `error` says. Gives the first cause up to 0.3 s to appear and
  /// throws as check(); throws `error` if none does, with a remark if the store is gone, too.
  [[noreturn]] void explain_loss(const Error& error, std::span<const int> suspects);

  /// Publishes that this rank waits for `awaited` in `operation`; then throws Mismatch if one of them is known to wait
  /// in a different operation with the same sequence number.
  void publish_wait(const Fingerprint& operation, std::span<const int> awaited);

  /// What one rank has published.
  struct Waiting {
    std::string stamp;  // changes whenever the rank renews its report
    std::uint64_t seq = 0;
    std::vector<int> awaited;
    std::string operation;
  };
  /// What all ranks have published by a moment; nothing for those that never did.
  struct Reports {
    std::vector<std::optional<Waiting>> by_rank;
    std::chrono::steady_clock::time_point at;
  };
  Reports reports();

  /// One sentence on why `awaited` have not come, for a timeout: follows the wait-for graph to the rank that is not
  /// waiting. Ranks whose report is the same as in `earlier` have stopped reporting; where `earlier` is missing or only
  /// just taken this takes half a second to find out. Throws Aborted if another rank has recorded the cause meanwhile.
  std::string diagnose(const Fingerprint& operation, std::span<const int> awaited, std::optional<Reports> earlier);

 private:
  std::string key(const std::string& name) const { return group_ + "/" + name; }
  int world_rank(int rank) const;
  std::optional<Error> find_cause(std::span<const int> awaited);
  std::optional<std::string> read(const std::string& key);
  std::optional<Waiting> read_waiting(int rank);
  std::string follow_waits(std::span<const int> awaited, const Reports& earlier);
  void let_age(const Reports& earlier, const Fingerprint& operation, std::span<const int> awaited);
  void write_waiting(const Fingerprint& operation, std::span<const int> awaited);

  const std::shared_ptr<Store> store_;
  const std::string group_;
  const int rank_;
  const int world_size_;
  const std::function<std::string(int)> describe_;
  const std::vector<int> world_ranks_;
  const std::string prefix_;
  std::atomic<std::uint64_t> stamp_{0};
};

}  // namespace tutti::comm
