// ElasticJob: the launcher's side of comm/bootstrap/generation.h. Its ranks are those of this host, or of several nodes
// (elastic_round.h).
//
// Serves the control store and the store of each generation, watches what workers say there, and decides with
// next_generation.h. A program whose ranks never register (it is not elastic) is left alone: its first failure is the
// job's. A rank that dies so early that nobody has registered yet: the others have kSettleTime to do so. Thread-safety:
// one thread. Signals must be blocked before the constructor runs (servers have threads).
#pragma once

#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/tools/run/attempt_control.h>
#include <tutti/tools/run/elastic/next_generation.h>
#include <tutti/tools/run/rank_environment.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

/// Where the ranks are, and the servers.
struct ElasticPlace {
  std::vector<int> ranks{};    // of each node
  std::string bind_address{};  // of the servers; "": all interfaces
  std::string told_address{};  // to the workers; "": they reach the stores where they reach the control store
  bool on_nodes = false;       // processes are on other hosts, perhaps; whether they are frozen stands in RankEnd

  static ElasticPlace one_host(const JobEnvironment& job) {
    return {{job.local_size}, job.master_addr, job.master_addr, false};
  }
};

class ElasticJob final : public Rescuer {
 public:
  using Say = std::function<void(const std::string& line)>;

  /// `job` is that of the first generation, which is published. Throws as TcpStoreServer does.
  ElasticJob(const JobEnvironment& job, ElasticPlace place, const ElasticLimits& limits, Say say);
  ~ElasticJob() override;

  std::chrono::milliseconds look_every() const override { return std::chrono::milliseconds(100); }
  std::vector<std::string> environment(int local_rank) const override;
  RescuePlan look(std::span<const RankEnd> ranks, RankEnd::Clock::time_point now) override;

  /// A rank had registered when look() was called last: losses are dealt with here.
  bool program_is_elastic() const { return elastic_; }
  /// The same now; asks the control store.
  bool look_for_members();
  bool use_restart();
  int restarts_used() const { return restarts_used_; }
  /// A worker has said that another start would fail as it did.
  bool failed_for_good() const { return failed_for_good_; }
  std::uint16_t control_port() const { return control_server_->port(); }
  /// Of the present generation.
  std::uint16_t store_port() const { return stores_.back().server->port(); }
  int world_size() const { return static_cast<int>(members_.size()); }

  /// The ranks of this node run no more, and nobody can be started there.
  void node_gone(int node) { gone_.insert(node); }
  /// A node with so many ranks is to have places at the end, in the next generation; look() tells when it has.
  void node_comes(int node, int ranks) { coming_.emplace_back(node, ranks); }

 private:
  using Clock = RankEnd::Clock;
  struct Member {
    comm::WorkerId id;
    std::size_t process = 0;  // its place among all that were started
    int since = 0;            // the generation in which it has had its first place
  };
  struct Served {
    std::unique_ptr<comm::TcpStoreServer> server;
    std::optional<Clock::time_point> close_at{};
  };

  RescuePlan before_anybody_registered(std::span<const RankEnd> ranks, Clock::time_point now);
  bool note_final_failure();
  std::vector<WorkerFate> fates(std::span<const RankEnd> ranks);
  RescuePlan act(const NextGeneration& next, std::span<const RankEnd> ranks, Clock::time_point now);
  RescuePlan form(const NextGeneration& next, std::span<const RankEnd> ranks, Clock::time_point now);
  void publish();
  std::vector<std::string> environment_of(std::size_t rank) const;
  void add_coming(std::vector<Member>& members, RescuePlan& plan);
  RescuePlan end_late_ranks(std::span<const RankEnd> ranks);
  bool somebody_finished(std::span<const RankEnd> ranks) const;
  bool is_frozen(const RankEnd& rank) const;
  void tell(const NextGeneration& next, std::span<const RankEnd> ranks, bool replaced);
  void close_old_stores(Clock::time_point now);

  const JobEnvironment job_;
  const ElasticPlace place_;
  const ElasticLimits limits_;
  const Say say_;
  std::unique_ptr<comm::TcpStoreServer> control_server_;
  std::unique_ptr<comm::Store> control_;
  std::vector<Served> stores_;   // by generation
  std::vector<Member> members_;  // of the present generation, by rank
  std::vector<comm::WorkerReason> left_;
  std::set<int> gone_;                       // nodes
  std::vector<std::pair<int, int>> coming_;  // nodes, and their ranks
  std::size_t processes_ = 0;                // started so far
  int generation_ = 0;
  int restarts_used_ = 0;
  bool elastic_ = false;  // a worker has registered
  bool failed_for_good_ = false;
  std::optional<Clock::time_point> trouble_since_;
  Clock::time_point next_look_{};
};

}  // namespace tutti::tools
