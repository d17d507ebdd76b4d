// What an elastic job's launcher does for ranks that join it too late.
#include <gtest/gtest.h>
#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/tools/run/elastic/elastic_job.h>

#include <csignal>

namespace tutti::tools {
namespace {

using Clock = RankEnd::Clock;

comm::Deadline soon() { return comm::Deadline::after(std::chrono::seconds(10)); }

bool does_nothing(const ElasticJob::Step& step) { return !step.give_up && step.orders.empty() && step.joined.empty(); }

/// Two ranks of node 0, in generation 0; one rank of node 1 is given a place in generation 1 by join().
class ElasticJobLate : public ::testing::Test {
 protected:
  ElasticJobLate() {
    for (const char* worker : {"0.0.0", "0.1.0"}) enter(worker);
  }

  static RoundPlan description() {
    RoundPlan plan;
    plan.world_size = 2;
    plan.job_id = "late ranks";
    plan.nodes = {{.agent = 0, .host = "", .pid = 1, .address = "", .nproc = 2}};
    return plan;
  }
  void enter(const std::string& worker) {
    const comm::TcpStoreOptions options{
        .host = "127.0.0.1", .port = job_.control_port(), .job_id = "late ranks", .job_secret = "secret"};
    members_.push_back(std::make_unique<comm::GenerationMember>(std::make_shared<comm::TcpStore>(options, soon()),
                                                                worker, "secret", soon()));
    members_.back()->next(soon());
  }
  ElasticJob::Step look() { return job_.look(now_ += std::chrono::seconds(1)); }
  /// The processes of `node` that are to be given up at the next look.
  std::vector<std::size_t> lost_of(int node) { return look().orders[node].lost; }
  void join() {
    job_.node_comes({.agent = 1, .host = "", .pid = 1, .address = "", .nproc = 1});
    ASSERT_EQ(look().joined, (std::vector<std::pair<int, int>>{{1, 2}}));
    tell(1, 0, 2, true);
  }
  void finish(int rank) { tell(0, rank, rank, false); }
  void tell(int node, int place, int rank, bool running, int killed_by = 0) {
    RankEnd end;
    end.rank = rank;
    end.pid = 4711;
    end.running = running;
    end.by_signal = killed_by != 0;
    end.code = killed_by;
    job_.changed(node, {0, {static_cast<std::size_t>(place)}, {end}});
  }

  std::vector<std::string> said_;
  ElasticJob job_{description(), "127.0.0.1", "secret", ElasticLimits{},
                  [this](const std::string& line) { said_.push_back(line); }};
  std::vector<std::unique_ptr<comm::GenerationMember>> members_;
  Clock::time_point now_ = Clock::now();
};

TEST_F(ElasticJobLate, WhoWouldWaitForRanksThatHaveFinishedIsEnded) {
  join();
  enter("1.0.0");
  finish(0);
  EXPECT_TRUE(lost_of(1).empty());  // rank 1 may be about to finish, too
  finish(1);
  said_.clear();
  EXPECT_EQ(lost_of(1), std::vector<std::size_t>{0});
  EXPECT_EQ(said_, std::vector<std::string>{"rank 2 (pid 4711) has come too late and is ended: rank 0 had finished "
                                            "without it"});
  tell(1, 0, 2, false, SIGKILL);
  EXPECT_TRUE(does_nothing(look()));
}

TEST_F(ElasticJobLate, EvenBeforeItHasComeToTheStore) {
  join();
  finish(0);
  finish(1);
  EXPECT_EQ(lost_of(1), std::vector<std::size_t>{0});
}

TEST_F(ElasticJobLate, WhoWorksWithOthersThatFinishEarlierGoesOn) {
  join();
  enter("1.0.0");
  for (const std::size_t member : {0, 1}) members_[member]->next(soon());
  finish(0);
  finish(1);
  EXPECT_TRUE(does_nothing(look()));
}

TEST_F(ElasticJobLate, RanksOfTheFirstGenerationMayEndWhenTheyLike) {
  finish(1);
  EXPECT_TRUE(does_nothing(look()));
}

}  // namespace
}  // namespace tutti::tools
