// `tutti run --elastic` on several nodes: agents over loopback that lose ranks, are killed, and come.
#include <signal.h>
#include <tutti/tests/trainer/small_run.h>
#include <tutti/tools/run/reserved_port.h>

#include <fstream>
#include <map>

namespace tutti::trainer {
namespace {

using test::Processes;
using Workers = std::map<std::string, pid_t>;

// Nearly all of them lie behind the second, at whose end tests begin to disturb the job. Rank 0 looks for newcomers
// every 100 ms: of 60 epochs a fast machine had done the last one before that.
constexpr int kEpochs = 300;

class ElasticNodes : public SmallRun {
 protected:
  /// An agent with two ranks.
  std::unique_ptr<Processes> agent(const Words& nodes) const {
    const Words training{"--epochs", std::to_string(kEpochs), "--reproducible", "--json", path("report.json")};
    const Words launch = joined({TUTTI_PROGRAM, "run", "--elastic", "--max-restarts", "3", "-n", "2"}, nodes);
    test::ProcessesOptions options = alone(joined(joined(launch, {"--"}), command(training)));
    options.environment.push_back("TUTTI_JOB_SECRET=secret of the test");
    return std::make_unique<Processes>(options);
  }
  std::unique_ptr<Processes> fixed_agent(int node) const {
    return agent({"--nnodes", "2", "--node-rank", std::to_string(node), "--master-addr", "127.0.0.1", "--master-port",
                  std::to_string(port_.port())});
  }
  std::unique_ptr<Processes> dynamic_agent() const {
    return agent(
        {"--nnodes", "1:2", "--rdzv-id", "test", "--rdzv-endpoint", "127.0.0.1:" + std::to_string(port_.port())});
  }
  /// On one rank, whose bits are those of four with as large a global batch.
  Outcome undisturbed() const { return uninterrupted(kEpochs, {"--reproducible", "--nproc", "1"}, 32); }

  /// The process below `pid` whose children are ranks of this node, and they.
  static std::pair<pid_t, Workers> agent_of_node(pid_t pid, const std::string& node) {
    const Workers workers = workers_of(pid);
    if (!workers.empty() && workers.begin()->first.starts_with(node + ".")) return {pid, workers};
    std::ifstream children("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children");
    for (pid_t child = 0; children >> child;) {
      const auto found = agent_of_node(child, node);
      if (found.first != 0) return found;
    }
    return {0, {}};
  }

  /// Keeps a rank, and so the training, from going on until `happened` returns: what a test waits for must not come
  /// after the last epoch, however slow this machine is to start an agent.
  template <typename Happened>
  static bool while_held(const Workers& workers, const Happened& happened) {
    const pid_t rank = workers.begin()->second;
    EXPECT_EQ(::kill(rank, SIGSTOP), 0);
    const bool in_time = happened();
    EXPECT_EQ(::kill(rank, SIGCONT), 0);
    return in_time;
  }

  tools::ReservedPort port_{"127.0.0.1"};
};

// One rank of a node, and all of them, so that its agent alone waits for replacements.
TEST_F(ElasticNodes, KilledRanksAreReplacedByTheirOwnNode) {
  const Outcome whole = undisturbed();
  for (const bool all : {false, true}) {
    SCOPED_TRACE(all ? "all ranks of a node" : "one rank");
    const auto first = fixed_agent(0);
    const auto second = fixed_agent(1);
    ASSERT_TRUE(first->wait_for_output(0, "epoch 2/")) << first->err(0);
    const Workers here = workers_of(first->pid(0));
    const Workers there = workers_of(second->pid(0));
    ASSERT_EQ(here.size(), 2U);
    ASSERT_EQ(there.size(), 2U);
    for (const auto& [worker, pid] : there) {
      if (!all && worker != "1.1.0") continue;
      ASSERT_EQ(::kill(pid, SIGKILL), 0) << worker;
    }
    ASSERT_TRUE(first->wait_for_output(0, "generation 1: 4 ranks")) << first->err(0) << second->err(0);
    EXPECT_EQ(workers_of(first->pid(0)), here);
    const Workers later = workers_of(second->pid(0));
    EXPECT_TRUE(later.contains("1.1.1"));
    EXPECT_EQ(first->wait(0), kDone) << first->err(0);
    EXPECT_EQ(second->wait(0), kDone) << second->err(0);
    EXPECT_EQ(outcome("report.json").parameter_sha256, whole.parameter_sha256);
    if (all) continue;
    EXPECT_EQ(later.at("1.0.0"), there.at("1.0.0"));
    test::expect_parts(first->err(0), {"1 rank starts again, 3 ranks go on (restart 1 of at most 3)",
                                       "rank 3 (pid " + std::to_string(there.at("1.1.0"))});
  }
}

TEST_F(ElasticNodes, ALostNodeIsLeftOutAndAnotherJoins) {
  const Outcome whole = undisturbed();
  const auto first = dynamic_agent();
  ASSERT_TRUE(first->wait_for_error(0, "nodes are here")) << first->err(0);  // it coordinates
  const auto second = dynamic_agent();
  ASSERT_TRUE(first->wait_for_output(0, "epoch 2/")) << first->err(0);
  const Workers here = workers_of(first->pid(0));
  const Workers there = workers_of(second->pid(0));
  ASSERT_EQ(here.size(), 2U);
  ASSERT_EQ(there.size(), 2U);
  second->kill(0, SIGKILL);
  ASSERT_TRUE(first->wait_for_output(0, "generation 1: 2 ranks")) << first->err(0);
  std::unique_ptr<Processes> third;
  ASSERT_TRUE(while_held(here,
                         [&] {
                           third = dynamic_agent();
                           return first->wait_for_error(0, "node 2 joins with 2 ranks");
                         }))
      << first->err(0) << third->err(0);
  ASSERT_TRUE(first->wait_for_output(0, "generation 2: 4 ranks")) << first->err(0) << third->err(0);
  EXPECT_EQ(workers_of(first->pid(0)), here);
  EXPECT_EQ(first->wait(0), kDone) << first->err(0);
  EXPECT_EQ(third->wait(0), kDone) << third->err(0);
  test::expect_parts(first->err(0), {"was lost"});
  test::expect_absent(first->err(0), {"restart 1"});
  for (const auto& [worker, pid] : there) EXPECT_TRUE(test::wait_until_gone(pid, std::chrono::seconds(10))) << worker;
  EXPECT_EQ(outcome("report.json").parameter_sha256, whole.parameter_sha256);
}

TEST_F(ElasticNodes, ALauncherOfHostsStartsALostAgentAgain) {
  const Outcome whole = undisturbed();
  std::ofstream(folder_ / "rsh") << "#!/bin/sh\nshift; exec sh -c \"$*\"\n";
  std::filesystem::permissions(folder_ / "rsh", std::filesystem::perms::owner_all);
  const auto launcher = agent({"-H", "a:2,b:2", "--rsh", path("rsh")});
  ASSERT_TRUE(launcher->wait_for_output(0, "epoch 2/")) << launcher->err(0);
  const auto here = agent_of_node(launcher->pid(0), "0");
  const auto there = agent_of_node(launcher->pid(0), "1");
  ASSERT_EQ(here.second.size(), 2U);
  ASSERT_NE(there.first, 0);
  ASSERT_EQ(::kill(there.first, SIGKILL), 0);
  // The new agent joins in the generation that leaves the lost out, if it is quick, or in another one.
  ASSERT_TRUE(launcher->wait_for_output(0, "generation 1: ")) << launcher->err(0);
  ASSERT_TRUE(while_held(here.second, [&] { return launcher->wait_for_error(0, "node 2 joins with 2 ranks"); }))
      << launcher->err(0);
  EXPECT_EQ(agent_of_node(launcher->pid(0), "0"), here);
  EXPECT_EQ(launcher->wait(0), kDone) << launcher->err(0);
  test::expect_parts(launcher->err(0), {"the agent of that node is started again"});
  EXPECT_EQ(outcome("report.json").parameter_sha256, whole.parameter_sha256);
}

// Their ranks do not register.
TEST_F(ElasticNodes, AProgramThatIsNotElasticIsStartedAgainAsAWhole) {
  const auto start = [&](int node) {
    return std::make_unique<Processes>(
        test::ProcessesOptions{.command = {TUTTI_PROGRAM, "run", "--elastic", "--max-restarts", "1", "-n", "1",
                                           "--nnodes", "2", "--node-rank", std::to_string(node), "--master-addr",
                                           "127.0.0.1", "--master-port", std::to_string(port_.port()), "--", "sh", "-c",
                                           "echo rank $RANK start $TORCHELASTIC_RESTART_COUNT; "
                                           "test $RANK$TORCHELASTIC_RESTART_COUNT != 10 || exit 7"},
                               .ranks = false,
                               .environment = {"TUTTI_JOB_SECRET=secret of the test"}});
  };
  const auto first = start(0), second = start(1);
  EXPECT_EQ(first->wait(0), kDone) << first->err(0);
  EXPECT_EQ(second->wait(0), kDone) << second->err(0);
  test::expect_parts(first->out(0), {"rank 0 start 1"});
  test::expect_parts(second->out(0), {"rank 1 start 1"});
  test::expect_parts(first->err(0), {"starting all ranks again (restart 1 of at most 1)"});
}

}  // namespace
}  // namespace tutti::trainer
