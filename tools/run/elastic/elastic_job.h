// ElasticJob: the launcher's side of comm/bootstrap/generation.h, for ranks of one host or of several nodes.
//
//   Attempt of each node --- Report ---> ends of all processes ---> next_generation.h decides
//                        <-- Order ----  what is to be done, by node ------+
//
// Serves the control store and the store of each generation, and watches what workers say there. A program whose ranks
// never register (it is not elastic) is left alone: its first failure is the job's. Where a rank dies before any
// has registered, the others have kSettleTime to do so. Thread-safety: one thread, the launcher's or the
// coordinator's. Signals must be blocked before the constructor runs (servers have threads).
#pragma once

#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/tools/run/elastic/next_generation.h>
#include <tutti/tools/run/nodes/messages.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

class ElasticJob {
 public:
  using Say = std::function<void(const std::string& line)>;
  struct Step {
    bool give_up = false;                       // the failure is the job's
    std::map<int, Order> orders{};              // by node
    std::vector<std::pair<int, int>> joined{};  // nodes that have a place now, and their first ranks
  };

  /// `plan` is that of the first generation, which is published; its ports are not known yet. Workers reach the stores
  /// where they reach the control store. Throws as TcpStoreServer does.
  ElasticJob(const RoundPlan& plan, const std::string& bind_address, const std::string& job_secret,
             const ElasticLimits& limits, Say say);
  ~ElasticJob();

  /// How processes of `node` fare. Throws comm::Error{Protocol} for one that no node was told to start.
  void changed(int node, const std::vector<RankEnd>& ranks);
  /// The ranks of this node run no more, and none can be started there.
  void node_gone(int node) { gone_.insert(node); }
  /// The next node is to have places at the end, in the next generation; look() tells when it has.
  void node_comes(const NodePlace& place);
  /// What is to be done now; to be called a few times a second. Does not block for longer than the control store, in
  /// this process, takes to answer.
  Step look(RankEnd::Clock::time_point now);

  /// A rank had registered when look() was called last: losses are dealt with here.
  bool program_is_elastic() const { return elastic_; }
  /// The same now; asks the control store.
  bool look_for_members();
  /// For a node that is started again; false if none is left.
  bool use_restart();
  int restarts_used() const { return restarts_used_; }
  /// A worker has said that another start would fail as it did.
  bool failed_for_good() const { return failed_for_good_; }
  std::uint16_t control_port() const { return control_server_->port(); }
  /// Of the present generation.
  std::uint16_t store_port() const { return store_->port(); }
  int world_size() const { return static_cast<int>(members_.size()); }

 private:
  using Clock = RankEnd::Clock;
  struct Process {
    int node = 0;
    RankEnd end;
  };
  struct Member {
    comm::WorkerId id;
    std::size_t process = 0;
    int since = 0;  // the generation in which it has had its first place
  };

  std::unique_ptr<comm::TcpStoreServer> serve(const std::string& job_id, int world_size = -1) const;
  std::size_t add_process(int node, int rank);
  Step before_anybody_registered(Clock::time_point now) const;
  bool note_final_failure();
  std::vector<WorkerFate> fates();
  Step act(const NextGeneration& next, Clock::time_point now);
  Step form(const NextGeneration& next, Clock::time_point now);
  std::string job_id() const;
  void publish();
  std::vector<std::string> environment_of(std::size_t rank) const;
  void add_coming(std::vector<Member>& members, Step& step);
  Step end_late_ranks();
  bool has_died(const Member& member) const;
  bool somebody_finished() const;
  const NodePlace& place_of(int node) const { return plan_.nodes[static_cast<std::size_t>(node)]; }
  const RankEnd& end_of(std::size_t place) const { return processes_[members_[place].process].end; }
  Order& order_for(int node, Step& step) const;
  void count_as_lost(std::size_t process, Step& step);
  void tell(const NextGeneration& next, bool replaced);

  RoundPlan plan_;  // of the first generation; nodes that come later stand at its end
  const std::string bind_address_;
  const std::string secret_;
  const ElasticLimits limits_;
  const Say say_;
  std::unique_ptr<comm::TcpStoreServer> control_server_;
  std::unique_ptr<comm::Store> control_;
  std::unique_ptr<comm::TcpStoreServer> store_;      // of the present generation ...
  std::unique_ptr<comm::TcpStoreServer> old_store_;  // ... and of the one before, for a while
  Clock::time_point close_old_at_{};
  std::vector<Process> processes_;                 // all that were started
  std::vector<std::vector<std::size_t>> of_node_;  // a node's processes
  std::vector<Member> members_;                    // of the present generation, by rank
  std::vector<comm::WorkerReason> left_;
  std::set<int> gone_;       // nodes
  std::vector<int> coming_;  // nodes
  int generation_ = 0;
  int restarts_used_ = 0;
  bool elastic_ = false;  // a worker has registered
  bool failed_for_good_ = false;
  std::optional<Clock::time_point> trouble_since_;
  Clock::time_point next_look_{};
};

}  // namespace tutti::tools
