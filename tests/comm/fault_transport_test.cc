// Groups over a transport that is as late and as fragmentary as it may be, and whose connections break: exact results,
// or the same first cause on all ranks, in time.
#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/tests/support/faulty_transport.h>
#include <tutti/tests/support/in_threads.h>
#include <tutti/tests/support/inproc_transport.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/support/stolen_time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "mixed_operations.h"
#include "store_test_support.h"

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::run_mixed_operations;
using tutti::test::make_transports;
using tutti::test::Net;
using Lane = ConnectionReset::Lane;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr milliseconds kNoticed(4000);
#else
constexpr milliseconds kNoticed(1000);
#endif

/// One world that a seed describes.
struct Scene {
  explicit Scene(std::uint64_t s) : seed(s), world_size(2 + static_cast<int>(s % 4)) {
    static constexpr std::array kAlgorithms = {"",      "",           "ring", "direct", "bruck", "rabenseifner",
                                               "chain", "double_tree"};
    group.algorithm = kAlgorithms[random() % kAlgorithms.size()];
    group.segment_bytes = std::size_t{64} << random() % 6;
    group.timeout = std::chrono::seconds(20);
  }

  ConnectionReset any_reset() {
    ConnectionReset reset;
    const auto ranks = static_cast<unsigned>(world_size);
    reset.one = static_cast<int>(random() % ranks);
    reset.other = static_cast<int>((static_cast<unsigned>(reset.one) + 1 + random() % (ranks - 1)) % ranks);
    static constexpr std::array kLanes = {Lane::Collective, Lane::Collective, Lane::Collective, Lane::Messages,
                                          Lane::Answers};
    static constexpr unsigned kMostFrames[] = {60, 5, 2};  // by lane
    reset.lane = kLanes[random() % kLanes.size()];
    reset.after_frames = random() % kMostFrames[static_cast<int>(reset.lane)];
    reset.lose_data = random() % 2 == 0;
    return reset;
  }

  /// Runs `body` on every rank; what each ended with.
  std::vector<std::optional<Error>> run(const std::function<void(ProcessGroup& group)>& body) {
    FaultyTransports transports = make_faulty_transports(make_transports(net, world_size), faults);
    world = transports.world;
    const auto store = std::make_shared<HashStore>();
    const auto be_rank = [&](int rank) {
      ProcessGroup ranks_group(store, std::move(transports.ranks[static_cast<std::size_t>(rank)]), group);
      body(ranks_group);
    };
    return tutti::test::run_threads_to_failure(world_size, be_rank, "running seed " + std::to_string(seed));
  }

  const std::uint64_t seed;
  const int world_size;
  Net net = Net::Inproc;
  std::mt19937_64 random{seed};
  ProcessGroupOptions group;
  FaultyOptions faults{.seed = seed};
  std::shared_ptr<const FaultyWorld> world;
};

/// Runs `scene` for each seed of a shard, several at once: most of a failure's time is waiting.
void for_each_seed(int shard, int seeds, int at_once, const std::function<void(std::uint64_t seed)>& scene) {
  std::atomic<int> next{0};
  tutti::test::in_threads(at_once, [&](int) {
    for (int number; (number = next++) < seeds;) scene(static_cast<std::uint64_t>(shard * seeds + number + 1));
  });
}

/// One thread sends frames of 0, 1, ... 39 bytes from rank 0 to ranks 1 and 2 and reads them; returns what every call
/// of peek and read gave. The payloads must come whole and, on each link, in order.
std::vector<std::size_t> trace_of(std::uint64_t seed) {
  auto transports = make_faulty_transports(tutti::test::make_inproc_transports(3), {.seed = seed}).ranks;
  constexpr std::size_t kFrames = 40;
  const std::vector<std::byte> payload(kFrames, std::byte{7});
  std::vector<std::size_t> trace;
  std::array<Outgoing, 2 * kFrames> frames;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    frames[i].header.id = frames[i].header.nbytes = i / 2;
    frames[i].payload = payload.data();
    transports[0]->collective(1 + static_cast<int>(i % 2)).post(frames[i]);
  }
  std::array<std::size_t, 2> taken{};
  while (taken[0] + taken[1] < frames.size()) {
    for (const int rank : {1, 2}) {
      auto& next = taken[static_cast<std::size_t>(rank) - 1];
      transports[0]->collective(rank).flush();
      Link& link = transports[static_cast<std::size_t>(rank)]->collective(0);
      const FrameHeader* header = link.peek();
      trace.push_back(header ? header->id + 1 : 0);
      if (!header) continue;
      EXPECT_EQ(header->id, next++);
      std::vector<std::byte> came(header->nbytes);
      if (came.empty()) link.read(nullptr, 0);
      for (std::size_t have = 0; have < came.size(); have += trace.back())
        trace.push_back(link.read(came.data() + have, came.size() - have));
      EXPECT_TRUE(std::equal(came.begin(), came.end(), payload.begin()));
    }
  }
  return trace;
}

TEST(FaultyTransport, KeepsTheOrderWithinALinkAndDoesTheSameForTheSameSeed) {
  const auto trace = trace_of(1);
  EXPECT_EQ(trace, trace_of(1));
  EXPECT_NE(trace, trace_of(2));
  EXPECT_GT(std::count(trace.begin(), trace.end(), std::size_t{0}), 40) << "hardly anything came late";
}

void expect_exact_results(Net net, int shard, int seeds) {
  for_each_seed(shard, seeds, 2, [&](std::uint64_t seed) {
    Scene scene(seed);
    scene.net = net;
    const auto outcomes =
        scene.run([&](ProcessGroup& group) { run_mixed_operations(group, seed, test::mixed_kinds() + 4); });
    for (const auto& outcome : outcomes) EXPECT_FALSE(outcome) << "seed " << seed << ": " << outcome->what();
  });
}

class FaultyWorlds : public testing::TestWithParam<int> {};

TEST_P(FaultyWorlds, LateAndFragmentaryDeliveryChangesNoResult) { expect_exact_results(Net::Inproc, GetParam(), 100); }

class FaultyNets : public testing::TestWithParam<Net> {};

TEST_P(FaultyNets, LateAndFragmentaryDeliveryChangesNoResult) { expect_exact_results(GetParam(), 7, 50); }

class BreakingWorlds : public testing::TestWithParam<int> {};

/// Whether `cause` is "rank A/n: ... lost rank B ..." of the two ends of the connection that broke.
bool names_the_ends(const std::string& cause, const ConnectionReset& reset) {
  const auto says = [&](int reporter, int lost) {
    return cause.rfind("rank " + std::to_string(reporter) + "/", 0) == 0 &&
           cause.find("lost rank " + std::to_string(lost) + " ") != std::string::npos;
  };
  return says(reset.one, reset.other) || says(reset.other, reset.one);
}

void expect_the_reset_is_named(Scene& scene, std::atomic<int>& happened, const tutti::test::StolenTime& stolen) {
  const ConnectionReset reset = scene.any_reset();
  scene.faults.reset = reset;
  std::vector<steady_clock::time_point> ended(static_cast<std::size_t>(scene.world_size));
  const auto outcomes = scene.run([&](ProcessGroup& group) {
    try {
      run_mixed_operations(group, scene.seed, test::mixed_kinds() + 4);
      group.shutdown();
    } catch (const Error&) {
      ended[static_cast<std::size_t>(group.rank())] = steady_clock::now();
      throw;
    }
  });
  const auto broke_at = scene.world->reset_at();
  std::string cause;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (!outcomes[rank]) continue;  // it may have had nothing more to wait for
    ASSERT_TRUE(broke_at.has_value()) << outcomes[rank]->what();
    const auto took = ended[rank] - *broke_at - stolen.between(*broke_at, ended[rank]);
    EXPECT_LT(took, kNoticed) << "rank " << rank << ": " << outcomes[rank]->what();
    if (cause.empty()) cause = test::first_cause(outcomes[rank]->what());
    EXPECT_EQ(test::first_cause(outcomes[rank]->what()), cause) << "rank " << rank;
    EXPECT_TRUE(names_the_ends(cause, reset)) << outcomes[rank]->what();
  }
  if (!broke_at) return;
  ++happened;
  EXPECT_FALSE(cause.empty()) << "a connection broke, and nobody noticed";
}

TEST_P(BreakingWorlds, AResetIsNamedByAllRanksWithTheSameCause) {
  std::atomic<int> happened{0};
  const tutti::test::StolenTime stolen;
  for_each_seed(GetParam(), 50, 8, [&](std::uint64_t seed) {
    Scene scene(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_the_reset_is_named(scene, happened, stolen);
  });
  EXPECT_GE(happened, 25) << "of 50 worlds";
}

std::string shard_name(const testing::TestParamInfo<int>& info) { return std::to_string(info.param); }

INSTANTIATE_TEST_SUITE_P(Seeds, FaultyWorlds, testing::Range(0, 6), shard_name);
INSTANTIATE_TEST_SUITE_P(Nets, FaultyNets,
                         testing::ValuesIn(test::available({Net::Tcp, Net::Shm, Net::Mixed, Net::Tls, Net::Ucx})),
                         [](const auto& net) { return tutti::test::name(net.param); });
INSTANTIATE_TEST_SUITE_P(Seeds, BreakingWorlds, testing::Range(0, 8), shard_name);

}  // namespace
}  // namespace tutti::comm
