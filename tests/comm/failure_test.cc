// What happens when ranks do not agree, do not come or leave: the right rank is named, on every rank, in time.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/transport/transport.h>
#include <tutti/tests/comm/net_test.h>
#include <tutti/tests/support/watchdog.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::expect_parts;
using test::first_cause;

class Failures : public OverNets {};

void expect_same_cause(const std::vector<std::optional<Error>>& outcomes) {
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(first_cause(outcome->what()), first_cause(outcomes[0]->what()));
  }
}

struct Disagreement {
  const char* what;
  test::RankBody body;
  const char* ours;  // both must stand in every rank's text
  const char* theirs;
};

/// Beside those of three processes, in fault_rounds_test.cc.
std::vector<Disagreement> disagreements() {
  const auto fresh = [] { return std::vector<float>(5000, 1.0f); };
  return {
      {"root, both receive",
       [=](ProcessGroup& g) {
         auto v = fresh();
         g.broadcast(std::span<float>(v), 1 - g.rank());
         g.barrier();
       },
       "root 1", "root 0"},
      {"reduce_scatter against all_to_all",
       [=](ProcessGroup& g) {
         const auto input = fresh();
         std::vector<float> output(2500), blocks(5000);
         if (g.rank() == 0) g.reduce_scatter(const_buffer(std::span(input)), buffer(std::span(output)));
         if (g.rank() != 0) g.all_to_all(const_buffer(std::span(input)), buffer(std::span(blocks)));
         g.barrier();
       },
       "reduce_scatter seq 1 (sum float32 x 2500)", "all_to_all seq 1 (float32 x 2500)"},
      {"reduce op of reduce_scatter",
       [=](ProcessGroup& g) {
         const auto input = fresh();
         std::vector<float> output(2500);
         g.reduce_scatter(const_buffer(std::span(input)), buffer(std::span(output)),
                          g.rank() == 0 ? ReduceOp::Min : ReduceOp::Sum);
         g.barrier();
       },
       "reduce_scatter seq 1 (min float32 x 2500)", "reduce_scatter seq 1 (sum float32 x 2500)"},
      {"rounding of all_reduce",
       [=](ProcessGroup& g) {
         std::vector<double> sums(5000);
         auto rounded = fresh();
         if (g.rank() == 0) g.all_reduce_rounded(buffer(std::span(sums)), buffer(std::span(rounded)));
         if (g.rank() != 0) g.all_reduce(std::span<double>(sums));
         g.barrier();
       },
       "all_reduce seq 1 (sum float64 x 5000, rounded to float32)", "all_reduce seq 1 (sum float64 x 5000)"},
      {"type of sendrecv",
       [=](ProcessGroup& g) {
         std::vector<float> sent(3), floats(3);
         std::vector<std::int32_t> integers(3);
         const int peer = 1 - g.rank();
         const ConstBuffer outgoing = const_buffer(std::span(sent));
         g.sendrecv(outgoing, peer, g.rank() == 0 ? buffer(std::span(integers)) : buffer(std::span(floats)), peer);
         g.barrier();
       },
       "recv (int32 x 3, tag 0)", "send (float32 x 3, tag 0)"},
      {"counts of reduce_scatter_v",
       [=](ProcessGroup& g) {
         const std::vector<std::size_t> counts = {g.rank() == 0 ? 5000u : 4000u, g.rank() == 0 ? 5000u : 6000u};
         std::vector<float> block(counts[static_cast<std::size_t>(g.rank())]), whole(10'000);
         g.reduce_scatter_v(const_buffer(std::span(whole)), buffer(std::span(block)), counts);
         g.barrier();
       },
       "reduce_scatter_v seq 1 (sum float32 x 10000, checksum of", "reduce_scatter_v seq 1 (sum float32 x 10000, "},
      {"counts of all_to_all_v",
       [=](ProcessGroup& g) {
         const bool first = g.rank() == 0;  // which sends 70'000, of which rank 1 expects 69'999
         const std::vector<std::size_t> sent = {1, first ? 70'000u : 1u}, received = {first ? 1u : 69'999u, 1};
         std::vector<float> input(sent[0] + sent[1]), output(received[0] + received[1]);
         g.all_to_all_v(const_buffer(std::span(input)), sent, buffer(std::span(output)), received);
         g.barrier();
       },
       "expects 69999 elements from rank 0", "which sends 70000: compare its send_counts[1] with recv_counts[0] here"},
      {"something against nothing in all_to_all_v",
       [=](ProcessGroup& g) {
         const bool first = g.rank() == 0;
         const std::vector<std::size_t> sent = {0, 0}, received = {0, first ? 1u : 0u};
         std::vector<float> output(received[1]);
         g.all_to_all_v({}, sent, buffer(std::span(output)), received);
         g.barrier();
       },
       "expects 1 elements from rank 1", "which sends 0"},
      {"one rank has left",
       [=](ProcessGroup& g) {
         auto v = fresh();
         if (g.rank() == 0) g.all_reduce(std::span<float>(v));
       },
       "all_reduce seq 1", "shutdown seq 1"},
  };
}

TEST_P(Failures, EveryDisagreementIsNamedWithBothSidesValues) {
  for (const Disagreement& disagreement : disagreements()) {
    SCOPED_TRACE(disagreement.what);
    const auto start = steady_clock::now();
    const auto outcomes = run_to_failure(2, disagreement.body);
    EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(3));
    int failed = 0;
    for (const auto& outcome : outcomes) {
      if (!outcome) continue;  // a rank that had only to leave may have left before the failure
      ++failed;
      expect_parts(outcome->what(), {disagreement.ours, disagreement.theirs});
    }
    EXPECT_GE(failed, 1);
    EXPECT_TRUE(outcomes[0].has_value());
  }
}

TEST_P(Failures, ARankThatDoesNotComeIsNamedAtTheDeadline) {
  // Rank 2 never joins the collective; it looks dead to the others, though its thread waits for their failure.
  const auto start = steady_clock::now();
  const auto outcomes = run_to_failure(4, milliseconds(1500), [](ProcessGroup& group) {
    std::vector<float> data(100'000);
    if (group.rank() == 2) {
      group.store()->get("world/failure", Deadline::after(std::chrono::seconds(15)));
      group.barrier();
    } else {
      group.all_reduce(std::span<float>(data));
    }
  });
  const auto took = steady_clock::now() - start;
  EXPECT_GE(took, milliseconds(1400));
  EXPECT_LT(took, milliseconds(4500));
  expect_same_cause(outcomes);
  expect_parts(what(outcomes[0]), {"timed out after"});
  const std::string cause = first_cause(what(outcomes[0]));
  test::expect_parts(cause, {"has not arrived"});
  EXPECT_NE(cause.substr(0, cause.find(" has not arrived")).rfind("rank 2"), std::string::npos) << cause;
}

TEST_P(Failures, AnAbortReachesRanksThatWaitAndRanksThatCompute) {
  const auto outcomes = run_to_failure(3, [](ProcessGroup& group) {
    std::vector<float> data(10);
    group.barrier();
    if (group.rank() == 1) group.abort("disk full on this rank");
    for (;;) group.all_reduce(std::span<float>(data));
  });
  expect_same_cause(outcomes);
  expect_parts(what(outcomes[0]), {"rank 1/3: abort: disk full on this rank"});
}

TEST_P(Failures, AnExceptionOnOneRankTellsTheOthersThatItsProgramFailed) {
  const auto outcomes = run_to_failure(3, [](ProcessGroup& group) {
    std::vector<float> data(10);
    group.barrier();
    if (group.rank() == 1) throw std::runtime_error("bad sample");
    for (;;) group.all_reduce(std::span<float>(data));
  });
  expect_parts(what(outcomes[1]), {"bad sample"});
  for (const std::size_t other : {0, 2}) expect_parts(what(outcomes[other]), {"rank 1/3: abort: its program failed"});
}

TEST_P(Failures, AllWorksOfAPoisonedGroupCarryTheFirstCause) {
  const auto outcomes = run_to_failure(2, [](ProcessGroup& group) {
    std::vector<float> data(10);
    std::vector<float> other(10);
    std::vector<Work> works;
    for (int i = 0; i < 3; ++i) works.push_back(group.irecv(buffer(std::span(other)), 1 - group.rank(), i));
    for (int i = 0; i < 3 && group.rank() == 1; ++i)  // rank 0 never joins them
      works.push_back(group.all_reduce_async(buffer(std::span(data))));
    const Deadline soon = Deadline::after(std::chrono::seconds(10));
    if (group.rank() == 1) group.store()->set("issued", "", soon);
    if (group.rank() == 0) {
      group.store()->get("issued", soon);
      group.abort("enough");
    }
    for (Work& work : works) {
      try {
        work.wait();
        ADD_FAILURE() << "a work of a failed group succeeded";
      } catch (const Error& error) {
        test::expect_parts(error.what(), {"rank 0/2: abort: enough"});
      }
    }
    EXPECT_THROW(group.barrier(), Error);
    EXPECT_THROW(group.send(std::span<float>(data), 1 - group.rank()), Error);
  });
  EXPECT_FALSE(outcomes[0]) << outcomes[0]->what();
  EXPECT_FALSE(outcomes[1]) << outcomes[1]->what();
}

TEST_P(Failures, AReceiveThatNobodyAnswersTimesOutNamingTheSender) {
  const auto outcomes = run_to_failure(2, milliseconds(600), [](ProcessGroup& group) {
    std::vector<float> data(1);
    if (group.rank() == 0) {
      group.recv(std::span<float>(data), 1, 77);
    } else {
      group.store()->get("world/failure", Deadline::after(std::chrono::seconds(15)));
      group.barrier();
    }
  });
  expect_parts(what(outcomes[0]), {"recv (float32 x 1, tag 77): timed out after", "rank 1"});
}

/// It waits for an answer, on a connection that is not open yet.
TEST_P(Failures, WhoSendsALongMessageIsToldOfAReceiverThatIsGone) {
  test::Watchdog watchdog;
  auto transports = test::make_transports(GetParam(), 2);
  const std::shared_ptr<Transport> receiver = std::move(transports[1]);
  std::thread reading([&] {  // the announcement, and nothing else
    while (!receiver->messages(0).peek()) receiver->service();
    receiver->close();
  });
  ProcessGroup group(std::make_shared<HashStore>(), std::move(transports[0]), {.timeout = std::chrono::seconds(60)});
  std::vector<float> data(100'000);
  const auto begin = steady_clock::now();
  try {
    group.send(std::span<float>(data), 1);
    ADD_FAILURE() << "nobody has taken it";
  } catch (const Error& error) {
    test::expect_parts(error.what(), {"rank 1"});
    EXPECT_LT(steady_clock::now() - begin, std::chrono::seconds(20)) << error.what();
  }
  reading.join();
}

/// A thread that a message tells of the failure may free what a queued collective works on.
TEST_P(Failures, AMessageThatFailsLeavesNoCollectiveAtWork) {
  std::atomic<bool> working{false};
  const UserOp slow{.name = "slow", .combine = [&](void*, const void*, std::size_t, DType) {
                      working = true;
                      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the slowness itself
                      working = false;
                    }};
  const auto outcomes = run_to_failure(2, [&](ProcessGroup& group) {
    std::vector<double> data(3), message(1), other(2);
    std::vector<double> result(group.rank() == 1 ? 3 : 0);
    Work reduced = group.reduce_async(const_buffer(std::span(data)), buffer(std::span(result)), slow, 1);
    if (group.rank() == 0) {
      group.send(std::span(message), 1);
      reduced.wait();
      group.barrier();
    }
    while (!working) std::this_thread::yield();
    try {
      group.recv(std::span(other), 0);  // another count
    } catch (const Error&) {
      EXPECT_FALSE(working);
      throw;
    }
  });
  for (const auto& outcome : outcomes) expect_parts(what(outcome), {"float64 x 2, tag 0"});
}

INSTANTIATE_TEST_SUITE_P(Nets, Failures, testing::ValuesIn(kNets), testing::PrintToStringParamName());

TEST(ForkedChild, GetsAClearErrorAndLeavesTheGroupAlone) {
  run_ranks(1, [](ProcessGroup& group) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        group.barrier();
      } catch (const Error& error) {
        ::_exit(std::string(error.what()).find("was forked from process") != std::string::npos ? 7 : 8);
      }
      ::_exit(9);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 7);
    group.barrier();
  });
}

}  // namespace
}  // namespace tutti::comm
