// What an elastic job's launcher does for ranks that join it too late.
#include <gtest/gtest.h>
#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/tools/run/elastic/elastic_job.h>

namespace tutti::tools {
namespace {

using Clock = RankEnd::Clock;

comm::Deadline soon() { return comm::Deadline::after(std::chrono::seconds(10)); }

/// Two ranks of node 0, in generation 0; one rank of node 1 is given a place in generation 1 by join().
class ElasticJobLate : public ::testing::Test {
 protected:
  ElasticJobLate() {
    for (const char* worker : {"0.0.0", "0.1.0"}) enter(worker);
  }

  static JobEnvironment description() {
    JobEnvironment job;
    job.world_size = job.local_size = 2;
    job.master_addr = "127.0.0.1";
    job.job_id = "late ranks";
    job.job_secret = "secret";
    return job;
  }
  void enter(const std::string& worker) {
    const comm::TcpStoreOptions options{
        .host = "127.0.0.1", .port = job_.control_port(), .job_id = "late ranks", .job_secret = "secret"};
    members_.push_back(std::make_unique<comm::GenerationMember>(std::make_shared<comm::TcpStore>(options, soon()),
                                                                worker, "secret", soon()));
    members_.back()->next(soon());
  }
  RescuePlan look() { return job_.look(ends_, now_ += std::chrono::seconds(1)); }
  void join() {
    job_.node_comes(1, 1);
    ASSERT_EQ(look().joined, std::vector<int>{1});
    ends_.resize(3);
    ends_[2].rank = 2;
    ends_[2].pid = 4711;
  }
  void finish(std::size_t process) { ends_[process].running = false; }

  std::vector<std::string> said_;
  ElasticJob job_{description(), ElasticPlace{{2}, "127.0.0.1", "127.0.0.1", true}, ElasticLimits{},
                  [this](const std::string& line) { said_.push_back(line); }};
  std::vector<std::unique_ptr<comm::GenerationMember>> members_;
  std::vector<RankEnd> ends_{2};
  Clock::time_point now_ = Clock::now();
};

TEST_F(ElasticJobLate, WhoWouldWaitForRanksThatHaveFinishedIsEnded) {
  join();
  enter("1.0.0");
  finish(0);
  EXPECT_TRUE(look().lost.empty());  // rank 1 may be about to finish, too
  finish(1);
  said_.clear();
  const RescuePlan plan = look();
  EXPECT_EQ(plan.kind, RescuePlan::Kind::GoOn);
  EXPECT_EQ(plan.lost, std::vector<std::size_t>{2});
  EXPECT_EQ(said_, std::vector<std::string>{"rank 2 (pid 4711) has come too late and is ended: rank 0 had finished "
                                            "without it"});
  ends_[2].running = false;
  ends_[2].by_signal = true;
  ends_[2].code = 9;
  EXPECT_EQ(look().kind, RescuePlan::Kind::Nothing);
}

TEST_F(ElasticJobLate, EvenBeforeItHasComeToTheStore) {
  join();
  finish(0);
  finish(1);
  EXPECT_EQ(look().lost, std::vector<std::size_t>{2});
}

TEST_F(ElasticJobLate, WhoWorksWithOthersThatFinishEarlierGoesOn) {
  join();
  enter("1.0.0");
  for (const std::size_t member : {0, 1}) members_[member]->next(soon());
  finish(0);
  finish(1);
  EXPECT_EQ(look().kind, RescuePlan::Kind::Nothing);
}

TEST_F(ElasticJobLate, RanksOfTheFirstGenerationMayEndWhenTheyLike) {
  finish(1);
  EXPECT_EQ(look().kind, RescuePlan::Kind::Nothing);
}

}  // namespace
}  // namespace tutti::tools
