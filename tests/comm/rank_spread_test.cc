// Ranks that outnumber processors spread evenly over them, wherever the system has left them.
#include <gtest/gtest.h>
#include <sched.h>
#include <tutti/comm/base/rank_spread.h>
#include <tutti/comm/shared/board.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/support/watchdog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace tutti::comm {
namespace {

using std::chrono::seconds;

/// Where ranks are that may run on processors 0 and 1, or on those in `allowed`, and how often each has tried to move.
struct Ranks {
  std::vector<std::atomic<int>> processors;
  std::vector<int> tries;
  std::vector<int> allowed{0, 1};
  bool may_move = true;

  explicit Ranks(const std::vector<int>& at) : processors(at.size()), tries(at.size(), 0) {
    for (std::size_t r = 0; r < at.size(); ++r) processors[r] = at[r];
  }

  RankSpread::Place place(std::size_t rank) {
    const auto move_to = [this, rank](int processor) {
      ++tries[rank];
      if (may_move) processors[rank] = processor;
    };
    return {[this, rank] { return processors[rank].load(); }, [this] { return allowed; }, move_to};
  }

  std::vector<int> at() const { return {processors.begin(), processors.end()}; }
  int tries_of_all() const { return std::accumulate(tries.begin(), tries.end(), 0); }

  /// All learn so many times where all are.
  std::vector<int> after(int calls) {
    std::vector<RankSpread> spreads;
    for (std::size_t r = 0; r < processors.size(); ++r) spreads.emplace_back(static_cast<int>(r), place(r));
    for (int call = 0; call < calls; ++call) {
      const std::vector<int> known = at();
      for (RankSpread& spread : spreads) spread.even_out(known);
    }
    return at();
  }
};

using At = std::vector<int>;

TEST(RankSpread, TheLastOnesOfTheFullestProcessorMove) {
  EXPECT_EQ(Ranks({0, 0, 0, 0, 0, 1}).after(1), (At{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(Ranks({1, 1, 1, 1, 1, 1}).after(1), (At{1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(Ranks({1, 0, 0, 1, 0, 0}).after(1), (At{1, 0, 0, 1, 0, 1}));
  EXPECT_EQ(Ranks({0, 0, 0, 1}).after(1), (At{0, 0, 1, 1}));
}

TEST(RankSpread, NobodyMovesWhereTheyAreEven) {
  for (const At& even : {At{0, 0, 0, 1, 1, 1}, At{0, 1, 0}, At{1, 1, 0}, At{0, 1}}) {
    Ranks ranks(even);
    EXPECT_EQ(ranks.after(3), even);
    EXPECT_EQ(ranks.tries_of_all(), 0);
  }
}

TEST(RankSpread, ThreeProcessorsAreEvenAfterAWhile) {
  Ranks ranks({5, 5, 5, 5, 5, 5, 5});
  ranks.allowed = {5, 7, 9};
  const At at = ranks.after(4);
  for (const int processor : ranks.allowed) EXPECT_GE(std::ranges::count(at, processor), 2) << processor;
}

TEST(RankSpread, WhoDoesNotMoveTriesLessAndLessOften) {
  Ranks ranks({0, 0, 0, 0, 1, 1});
  ranks.may_move = false;
  ranks.after(9);
  EXPECT_EQ(ranks.tries, (At{0, 0, 0, 4, 0, 0})) << "after 1, 2, 4 and 8 answers";
}

TEST(RankSpread, NobodyMovesWhereSomebodyIsNowhereYetOrNothingIsAllowed) {
  Ranks ranks({0, 0, 0, -1});
  ranks.after(3);
  EXPECT_EQ(ranks.tries_of_all(), 0);
  Ranks refused({0, 0, 0, 1});
  refused.allowed.clear();
  refused.after(3);
  EXPECT_EQ(refused.tries_of_all(), 0);
}

struct NoDeadline final : Caller {
  Deadline deadline() override { return Deadline::after(seconds(20)); }
};

/// So many operations of ranks that share memory and, as they are told, two processors; meanwhile the test takes no
/// more than two of its own.
void meet(Ranks& ranks, std::uint64_t operations) {
  const auto count = static_cast<int>(ranks.processors.size());
  test::Watchdog watchdog(seconds(60));
  cpu_set_t before, two;
  ::sched_getaffinity(0, sizeof before, &before);
  CPU_ZERO(&two);
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &two);
  ::sched_setaffinity(0, sizeof two, &two);
  const auto transports = test::make_transports(test::Net::Shm, count);
  const auto store = std::make_shared<HashStore>();
  std::vector<std::thread> threads;
  for (int r = 0; r < count; ++r)
    threads.emplace_back([&, r] {
      const auto index = static_cast<std::size_t>(r);
      Transport& transport = *transports[index];
      ASSERT_TRUE(transport.oversubscribed());
      FailureMonitor monitor(store, "world", r, count, [](int peer) { return "rank " + std::to_string(peer); });
      Board board(*transport.shared_memory(), transport, monitor, ranks.place(index));
      NoDeadline caller;
      for (std::uint64_t seq = 1; seq <= operations; ++seq) {
        watchdog.doing(r, "operation " + std::to_string(seq));
        const Operation operation{.fingerprint = {.group = 1, .seq = seq, .op = OpKind::Barrier}, .caller = caller};
        board.begin(operation, false);
        board.announce();
        board.await_all();
        board.finish();
      }
      watchdog.doing(r, "done");
    });
  for (std::thread& thread : threads) thread.join();
  ::sched_setaffinity(0, sizeof before, &before);
}

TEST(RankSpread, RanksThatShareMemorySpreadSoon) {
  Ranks ranks({0, 0, 0, 0, 0, 1});
  meet(ranks, 17);
  EXPECT_EQ(ranks.at(), (At{0, 0, 0, 1, 1, 1}));
}

TEST(RankSpread, RanksThatShareMemorySpreadAgain) {
  Ranks ranks({0, 1, 0, 1, 0, 1});
  meet(ranks, 100);
  EXPECT_EQ(ranks.tries_of_all(), 0);
  Ranks stubborn({1, 1, 1, 1});
  stubborn.may_move = false;
  meet(stubborn, 4 * 128);
  EXPECT_EQ(stubborn.tries, (At{0, 0, 3, 3})) << "after 1, 2 and 4 times";
}

}  // namespace
}  // namespace tutti::comm
