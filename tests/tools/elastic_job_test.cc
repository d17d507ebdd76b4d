// The rules of elastic jobs. What an elastic job's launcher does for ranks that join it too late.

#include <gtest/gtest.h>
#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/tools/run/elastic/elastic_job.h>
#include <tutti/tools/run/elastic/next_generation.h>
#include <tutti/tools/run/nodes/messages.h>

#include <csignal>
#include <optional>

namespace tutti::tools {
namespace {

using Clock = RankEnd::Clock;
using std::chrono::milliseconds;
using Fates = std::vector<WorkerFate>;
using Kind = NextGeneration::Kind;
using Places = std::vector<std::size_t>;

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
    end.place = place;
    end.pid = 4711;
    end.running = running;
    end.by_signal = killed_by != 0;
    end.code = killed_by;
    job_.changed(node, {end});
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

// Which ranks take part in the next generation of an elastic job, and when.

constexpr auto R = WorkerFate::Runs, L = WorkerFate::Left, F = WorkerFate::Frozen, D = WorkerFate::Died,
               E = WorkerFate::Finished, G = WorkerFate::Gone;

TEST(NextGeneration, WhoTakesPartAndWhen) {
  const struct {
    const char* what;
    Fates fates;  // restarts used, of how many, least ranks, ms since the first that is not well was seen
    int used, restarts, min_ranks, since_ms;
    Kind kind;
    std::optional<Places> survivors{}, lost{}, silent{};
    std::optional<bool> replace{};
  } cases[] = {
      {"nothing happens while all run", {R, R, R}, 0, 1, 3, 0, Kind::Wait},
      {"or have finished", {R, E, R}, 0, 1, 3, 90'000, Kind::Wait},
      {"a frozen one that no other rank has noticed", {R, F, R}, 0, 1, 3, 90'000, Kind::Wait},
      {"a death is settled first", {R, D, R}, 0, 1, 3, 0, Kind::Wait},
      {"and then dealt with", {R, D, L}, 0, 1, 3, 200, Kind::Form, Places{0, 2}, Places{1}, {}, true},
      {"no other rank is left to die of it", {L, D, L}, 0, 1, 3, 0, Kind::Form},
      {"all that are not gone with their node", {L, L, G, G}, 0, 0, 0, 0, Kind::Form, Places{0, 1}, Places{2, 3}},
      {"one is dead beside those that are gone", {L, D, G, G}, 0, 0, 0, 0, Kind::TooFew},
      {"it is replaced", {L, D, G, G}, 0, 1, 0, 0, Kind::Form},
      {"replacements cannot be started on a lost node", {L, L, G, G}, 0, 3, 3, 0, Kind::TooFew},
      {"without restarts the world shrinks", {L, D, L}, 1, 1, 2, 0, Kind::Form, {}, {}, {}, false},
      {"to its minimum", {L, D, L}, 1, 1, 3, 0, Kind::TooFew},
      {"not to nothing", {D, D, D}, 1, 1, 1, 200, Kind::TooFew},
      {"all anew", {D, D, D}, 0, 1, 3, 200, Kind::Form},
      {"not all others have given the frozen one up", {L, F, R}, 0, 1, 3, 0, Kind::Wait},
      {"they have: it is killed", {L, F, L}, 0, 1, 3, 0, Kind::KillSilent, {}, {}, Places{1}},
      {"as after a death", {D, F, R}, 0, 1, 3, 200, Kind::KillSilent, {}, {}, Places{1}},
      {"a worker that says nothing has its time", {L, R, L}, 0, 1, 3, 29'000, Kind::Wait},
      {"and no more", {L, R, L}, 0, 1, 3, 30'000, Kind::KillSilent, {}, {}, Places{1}},
      {"all have left and none died", {L, L}, 3, 3, 2, 0, Kind::Form, Places{0, 1}},
      {"once one has finished none is replaced", {E, D, E}, 0, 3, 3, 200, Kind::AllDone},
      {"the rest goes on", {E, D, L}, 0, 3, 3, 200, Kind::Form, Places{2}, {}, {}, false},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    const ElasticLimits limits{.min_ranks = c.min_ranks, .max_restarts = c.restarts};
    const NextGeneration next = next_generation(c.fates, c.used, limits, milliseconds(c.since_ms));
    EXPECT_EQ(next.kind, c.kind);
    EXPECT_EQ(next.survivors, c.survivors.value_or(next.survivors));
    EXPECT_EQ(next.lost, c.lost.value_or(next.lost));
    EXPECT_EQ(next.silent, c.silent.value_or(next.silent));
    EXPECT_EQ(next.replace, c.replace.value_or(next.replace));
  }
}

constexpr Attendance finished_after(int generation) { return {.running = false, .since = 0, .entered = generation}; }
constexpr Attendance running(int since, int entered) { return {.running = true, .since = since, .entered = entered}; }

TEST(LateRanks, AreThoseThatHaveNotEnteredAGenerationThatTheOthersHaveFinished) {
  const Attendance new_one_that_ended{.running = false, .since = 1, .entered = -1};
  const struct {
    const char* what;
    std::vector<Attendance> members;
    int generation;
    Places late;
  } cases[] = {
      {"generation two", {finished_after(2), finished_after(1), running(2, 1), running(2, -1)}, 2, {2, 3}},
      {"all have entered it", {finished_after(1), finished_after(1), running(1, 1)}, 1, {}},
      {"others run", {finished_after(0), running(0, 0), running(1, -1)}, 1, {}},
      {"not what has finished itself", {finished_after(0), new_one_that_ended, running(1, -1)}, 1, {2}},
      {"the first generation", {finished_after(-1), running(0, -1)}, 0, {}},
  };
  for (const auto& c : cases) EXPECT_EQ(late_ranks(c.members, c.generation).late, c.late) << c.what;
  EXPECT_EQ(late_ranks(cases[0].members, 2).finished, 1u) << "rank 0 has been there";
}

}  // namespace
}  // namespace tutti::tools
