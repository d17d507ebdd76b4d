// Hubs instead of a star: all ranks agree on them, whenever the system moves somebody, and results are the star's.
#include <gtest/gtest.h>
#include <sched.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/hub_plans.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/support/watchdog.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace tutti::comm {
namespace {

using std::chrono::seconds;
using test::Net;
using test::run_ranks;
using test::run_ranks_to_failure;

constexpr int kRanks = 6;

/// What bracketing decides: large and small numbers of both signs.
std::vector<float> input_of(int rank, std::size_t count, std::uint64_t seq) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto power = static_cast<int>((i + static_cast<std::size_t>(rank) * 5 + seq) % 24);
    values[i] = std::ldexp(rank % 2 == 0 ? 1.25f : -1.0f, power);
  }
  return values;
}

std::vector<float> left_fold(std::size_t count, std::uint64_t seq) {
  auto sum = input_of(0, count, seq);
  for (int rank = 1; rank < kRanks; ++rank) {
    const auto next = input_of(rank, count, seq);
    for (std::size_t i = 0; i < count; ++i) sum[i] += next[i];
  }
  return sum;
}

struct NoDeadline final : Caller {
  Deadline deadline() override { return Deadline::after(seconds(20)); }
};

/// One rank's end, with a processor that the test chooses.
class Rank {
 public:
  Rank(std::unique_ptr<Transport> transport, std::shared_ptr<Store> store, RankSpread::Place place)
      : transport_(std::move(transport)),
        monitor_(std::move(store), "world", rank(), kRanks, [](int peer) { return "rank " + std::to_string(peer); }),
        executor_(*transport_, monitor_),
        plans_(rank(), kRanks, std::move(place)) {}

  int rank() const { return transport_->rank(); }

  /// Returns how many messages this rank had.
  int all_reduce(std::vector<float>& data, std::uint64_t seq) {
    const Fingerprint fingerprint{
        .group = 1, .seq = seq, .count = data.size(), .op = OpKind::AllReduce, .dtype = DType::Float32};
    return run(algorithms::star_all_reduce, fingerprint, data.data());
  }
  int barrier(std::uint64_t seq) {
    return run(algorithms::star_barrier, {.group = 1, .seq = seq, .op = OpKind::Barrier}, nullptr);
  }

 private:
  int run(Schedule (*build)(const Problem&), const Fingerprint& fingerprint, void* data) {
    const Plan star(build({.op = fingerprint.op, .rank = rank(), .world_size = kRanks, .count = fingerprint.count}));
    EXPECT_TRUE(plans_.takes(star, fingerprint));
    NoDeadline caller;
    const Operation operation{.fingerprint = fingerprint, .output = data, .caller = caller};
    const Plan& plan = plans_.plan_for(star, operation, executor_);
    executor_.run(plan, operation);
    return static_cast<int>(std::ranges::count_if(plan.steps, [](const PlanStep& s) { return s.step.peer >= 0; }));
  }

  std::unique_ptr<Transport> transport_;
  FailureMonitor monitor_;
  Executor executor_;
  HubPlans plans_;
};

/// Runs `body` on each rank, which is at places[rank].
void with_ranks_at(Net net, const std::vector<RankSpread::Place>& places, const std::function<void(Rank&)>& body) {
  test::Watchdog watchdog(seconds(60));
  auto transports = test::make_transports(net, kRanks);
  const auto store = std::make_shared<HashStore>();
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r)
    threads.emplace_back([&, r] {
      watchdog.doing(r, "running");
      const auto index = static_cast<std::size_t>(r);
      Rank rank(std::move(transports[index]), store, places[index]);
      body(rank);
      watchdog.doing(r, "done");
    });
  for (std::thread& thread : threads) thread.join();
}

/// The same on processors[rank % size] until its `moves`-th question, then on one more. Ranks cannot move by
/// themselves.
void with_ranks(Net net, const std::vector<int>& processors, int moves, const std::function<void(Rank&)>& body) {
  std::vector<RankSpread::Place> places;
  for (int r = 0; r < kRanks; ++r) {
    const int first = processors[static_cast<std::size_t>(r) % processors.size()];
    const auto here = [asked = 0, first, moves, r]() mutable {
      return first + (++asked > moves && r % 3 == 1 ? 1 : 0);
    };
    places.push_back({here, [] { return std::vector<int>(); }, [](int) { ADD_FAILURE(); }});
  }
  with_ranks_at(net, places, body);
}

class HubPlansOver : public testing::TestWithParam<Net> {};

TEST_P(HubPlansOver, GiveTheBitsOfTheStarWhereverRanksAreMovedTo) {
  with_ranks(GetParam(), {0, 1, 1, 0, 0, 1}, 2, [](Rank& rank) {
    for (std::uint64_t seq = 1; seq <= 4 * HubPlans::kAskEvery; ++seq) {
      const std::size_t count = seq % 7 == 0 ? 2000 : seq % 5 + 1;
      auto data = input_of(rank.rank(), count, seq);
      rank.all_reduce(data, 2 * seq);
      const auto expected = left_fold(count, seq);
      ASSERT_EQ(std::memcmp(data.data(), expected.data(), count * sizeof(float)), 0) << "operation " << seq;
      if (seq % 3 == 0) rank.barrier(2 * seq + 1);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Nets, HubPlansOver, testing::Values(Net::Tcp, Net::Tls, Net::Inproc),
                         [](const auto& test) { return test::name(test.param); });

// A hub has the messages of its processor; the star's rank 0 has those of all.
TEST(HubPlans, TakeTheirShareOnceTheRanksHaveBeenAsked) {
  with_ranks(Net::Tcp, {4, 4, 4, 9, 9, 9}, 1000, [](Rank& rank) {
    std::vector<int> messages;
    for (std::uint64_t seq = 0; seq <= HubPlans::kAskFirst; ++seq) {
      std::vector<float> data(1);
      messages.push_back(rank.all_reduce(data, seq));
    }
    EXPECT_EQ(messages[HubPlans::kAskFirst - 1], rank.rank() == 0 ? 10 : 2);
    EXPECT_EQ(messages[HubPlans::kAskFirst], rank.rank() % 3 == 0 ? 6 : 2) << "ranks 0 and 3 are hubs";
  });
}

TEST(HubPlans, KeepTheStarWhereOnlyOneProcessorHasSeveralRanks) {
  for (const std::vector<int>& processors : {std::vector<int>{3}, {0, 1, 2, 3, 4, 5}, {7, 7, 7, 7, 7, 8}})
    with_ranks(Net::Inproc, processors, 1000, [](Rank& rank) {
      for (std::uint64_t seq = 0; seq < HubPlans::kAskEvery + HubPlans::kAskFirst + 5; ++seq)
        ASSERT_EQ(rank.barrier(seq), rank.rank() == 0 ? 10 : 2);
    });
}

/// Where the ranks run who move, and how often each has tried to.
struct Movers {
  std::vector<int> processors;
  std::vector<int> tries = std::vector<int>(kRanks, 0);

  /// After so many answers.
  void run(int answers) {
    std::vector<RankSpread::Place> places;
    for (std::size_t r = 0; r < kRanks; ++r) {
      const auto move_to = [this, r](int processor) {
        ++tries[r];
        processors[r] = processor;
      };
      places.push_back({[this, r] { return processors[r]; }, [] { return std::vector<int>{0, 1}; }, move_to});
    }
    with_ranks_at(Net::Inproc, places, [answers](Rank& rank) {
      const auto last = static_cast<std::uint64_t>(answers - 1) * HubPlans::kAskEvery + HubPlans::kAskFirst;
      for (std::uint64_t seq = 0; seq <= last; ++seq) rank.barrier(seq);
    });
  }
};

TEST(HubPlans, EvenOutRanksThatTheSystemLeavesOnOneProcessor) {
  Movers movers{{0, 0, 0, 0, 0, 1}};
  movers.run(3);
  EXPECT_EQ(movers.processors, (std::vector<int>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(movers.tries, (std::vector<int>{0, 0, 0, 1, 1, 0})) << "and then they are even";
}

TEST(HubPlans, AreForShortStarsOfEnoughRanks) {
  const Fingerprint sum{.count = 4, .op = OpKind::AllReduce};
  Schedule star, ring;
  star.algorithm = "star";
  ring.algorithm = "ring";
  EXPECT_TRUE(HubPlans(0, 8).takes(Plan(star), sum));
  EXPECT_FALSE(HubPlans(0, 4).takes(Plan(star), sum));
  EXPECT_FALSE(HubPlans(0, 8).takes(Plan(ring), sum));
  EXPECT_FALSE(HubPlans(0, 8).takes(Plan(star), {.count = 4, .op = OpKind::AllGather}));
  EXPECT_FALSE(HubPlans(0, 8).takes(Plan(star), {.count = 4, .op = OpKind::Shutdown}));
  EXPECT_FALSE(HubPlans(0, 8).takes(Plan(star), {.count = 100'000, .op = OpKind::AllReduce}));
}

/// Groups whose ranks outnumber the processors that the test takes for itself meanwhile: two at most.
class GroupsOnTwoProcessors : public testing::Test {
 protected:
  GroupsOnTwoProcessors() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t two;
    CPU_ZERO(&two);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++cpu)
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &two);
    ::sched_setaffinity(0, sizeof two, &two);
  }
  ~GroupsOnTwoProcessors() override { ::sched_setaffinity(0, sizeof before_, &before_); }

  cpu_set_t before_;
};

TEST_F(GroupsOnTwoProcessors, HaveHubsAndOneResult) {
  run_ranks(kRanks,
            [](ProcessGroup& group) {
              ASSERT_EQ(group.algorithm_for(OpKind::AllReduce, 3, DType::Float32), "star");
              for (std::uint64_t seq = 1; seq <= 2 * HubPlans::kAskEvery; ++seq) {
                auto data = input_of(group.rank(), 3, seq);
                group.all_reduce(std::span<float>(data));
                const auto expected = left_fold(3, seq);
                ASSERT_EQ(std::memcmp(data.data(), expected.data(), 3 * sizeof(float)), 0) << "operation " << seq;
              }
            },
            {.net = Net::Tcp});
}

int open_sockets() {
  using Iterator = std::filesystem::directory_iterator;
  return static_cast<int>(std::count_if(Iterator("/proc/self/fd"), Iterator(), [](const auto& entry) {
    std::error_code closed;
    return std::filesystem::read_symlink(entry, closed).string().starts_with("socket:");
  }));
}

/// Sockets that all ranks open together, of which every other one is on the same processor, for hubs.
int sockets_for_hubs(const std::string& algorithm) {
  std::atomic<int> before = 0, after = 0;
  const auto body = [&](ProcessGroup& group) {
    const std::vector<int> allowed = allowed_processor_numbers();
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(allowed[static_cast<std::size_t>(group.rank()) % allowed.size()], &own);
    ::sched_setaffinity(0, sizeof own, &own);
    for (std::uint64_t seq = 1; seq <= 2 * HubPlans::kAskFirst; ++seq) {
      std::vector<float> data(3, 1.0f);
      group.all_reduce(std::span<float>(data));
      EXPECT_EQ(data.back(), kRanks);
      if (group.rank() == 0 && seq == 2) before = open_sockets();
    }
    if (group.rank() == 0) after = open_sockets();
    group.barrier();
  };
  run_ranks(kRanks, body, {.net = Net::Tcp, .group = {.timeout = seconds(20), .algorithm = algorithm}});
  return after - before;
}

TEST_F(GroupsOnTwoProcessors, HaveNoHubsWhereAStarIsAskedForByName) {
  if (allowed_processors() < 2) GTEST_SKIP() << "all ranks are on one processor";
  EXPECT_GT(sockets_for_hubs(""), 0);
  EXPECT_EQ(sockets_for_hubs("star"), 0);
}

// The operation that asks where ranks run is compared as any other.
TEST_F(GroupsOnTwoProcessors, NameWhoCalledWhatAlsoWhereTheyAsk) {
  const auto outcomes = run_ranks_to_failure(kRanks,
                                             [](ProcessGroup& group) {
                                               for (std::uint64_t seq = 0; seq < HubPlans::kAskFirst; ++seq)
                                                 group.barrier();
                                               std::vector<float> data(group.rank() == 4 ? 3 : 2);
                                               group.all_reduce(std::span<float>(data));
                                             },
                                             {.net = Net::Tcp});
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome.has_value());
    const std::string text = outcome->what();
    EXPECT_NE(text.find("rank 4"), std::string::npos) << text;
    EXPECT_NE(text.find("all_reduce seq 17"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace tutti::comm
