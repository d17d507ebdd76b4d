// Groups split from groups: who is in them, that they do not disturb each other, and who fails with whom.
#include <gtest/gtest.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/transport/lone_transport.h>
#include <tutti/tests/comm/net_test.h>
#include <tutti/tests/support/in_threads.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using std::chrono::seconds;
using test::expect_parts;

class SubGroups : public OverNets {};

std::vector<int> ranks_of(const ProcessGroup& group) {
  return {group.world_ranks().begin(), group.world_ranks().end()};
}

/// The sum over the group of its members' ranks in the world, which tells who takes part.
int sum_of_world_ranks(ProcessGroup& group) {
  int sum[] = {group.world_ranks()[static_cast<std::size_t>(group.rank())]};
  group.all_reduce(std::span<int>(sum));
  return sum[0];
}

std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  }
  return "no error";
}

std::ptrdiff_t descriptors_when_all_rest(ProcessGroup& world) {
  world.barrier();
  std::ptrdiff_t count = 0;  // by one rank: counting takes a descriptor
  if (world.rank() == 0) count = std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  world.barrier();
  return count;
}

TEST_P(SubGroups, SplitByColorOrdersByKeyThenRank) {
  run(6, [](ProcessGroup& world) {
    const int r = world.rank();
    // Color 0: ranks 0, 2, 4 with falling keys. Color 1: ranks 1, 3 with equal keys. Rank 5: nowhere.
    const auto group = world.split(r == 5 ? -1 : r % 2, r % 2 == 0 ? -r : 7);
    if (r == 5) {
      EXPECT_EQ(group, nullptr);
    } else if (r % 2 == 0) {
      EXPECT_EQ(ranks_of(*group), (std::vector<int>{4, 2, 0}));
      EXPECT_EQ(group->rank(), 2 - r / 2);
      EXPECT_EQ(group->name(), "world/split1/0");
      EXPECT_EQ(sum_of_world_ranks(*group), 6);
    } else {
      EXPECT_EQ(ranks_of(*group), (std::vector<int>{1, 3}));
      EXPECT_EQ(group->name(), "world/split1/1");
      EXPECT_EQ(sum_of_world_ranks(*group), 4);
    }
    EXPECT_EQ(sum_of_world_ranks(world), 15);
  });
}

TEST_P(SubGroups, EachRankAloneAndAllTogether) {
  run(3, [](ProcessGroup& world) {
    const auto alone = world.split(world.rank());
    const auto all = world.split(1'000'000, -world.rank());
    EXPECT_EQ(alone->world_size(), 1);
    EXPECT_EQ(sum_of_world_ranks(*alone), world.rank());
    EXPECT_EQ(all->rank(), 2 - world.rank());
    std::vector<int> order(3), mine{world.rank()};
    all->all_gather(std::span<int>(mine), std::span<int>(order));
    EXPECT_EQ(order, (std::vector<int>{2, 1, 0}));
  });
}

TEST_P(SubGroups, ByRankListCalledByMembersOnly) {
  run(5, [](ProcessGroup& world) {
    const std::vector<int> list = {3, 0, 4};
    if (world.rank() == 3 || world.rank() == 0 || world.rank() == 4) {
      const auto group = world.subgroup(list);
      EXPECT_EQ(group->name(), "world/ranks-3.0.4#1");
      EXPECT_EQ(ranks_of(*group), list);
      EXPECT_EQ(list[static_cast<std::size_t>(group->rank())], world.rank());
      EXPECT_EQ(sum_of_world_ranks(*group), 7);
      const auto again = world.subgroup(list);
      EXPECT_EQ(again->name(), "world/ranks-3.0.4#2");
      EXPECT_EQ(sum_of_world_ranks(*again), 7);
      EXPECT_EQ(sum_of_world_ranks(*group), 7);
    }
    world.barrier();
  });
}

TEST_P(SubGroups, WrongRankListsAreRefusedWithoutHarm) {
  run(2, [](ProcessGroup& world) {
    const auto refusal = [&](std::vector<int> list) { return text_of([&] { auto g = world.subgroup(list); }); };
    expect_parts(refusal({0, 2}), {"invalid argument: rank", "there is no rank 2 in a group of 2"});
    expect_parts(refusal({-1}), {"there is no rank -1"});
    expect_parts(refusal({1, 0, 1}), {"rank 1 is there twice"});
    expect_parts(refusal({1 - world.rank()}), {"this rank is not among them"});
    expect_parts(refusal({}), {"this rank is not among them"});
    EXPECT_EQ(sum_of_world_ranks(world), 1);
  });
}

TEST_P(SubGroups, GroupsOfGroupsCountRanksOfTheirParents) {
  run(8, [](ProcessGroup& world) {
    const auto half = world.split(world.rank() / 4, -world.rank());  // 3 2 1 0 and 7 6 5 4
    const auto quarter = half->split(half->rank() / 2);
    const int first = world.rank() / 2 * 2;
    EXPECT_EQ(ranks_of(*quarter), (std::vector<int>{first + 1, first}));
    EXPECT_EQ(quarter->name(),
              "world/split1/" + std::to_string(world.rank() / 4) + "/split1/" + std::to_string(half->rank() / 2));
    const std::vector<int> ends = {0, 3};
    if (half->rank() == 0 || half->rank() == 3) {
      const auto outer = half->subgroup(ends);
      EXPECT_EQ(sum_of_world_ranks(*outer), world.rank() < 4 ? 3 : 11);
    }
    EXPECT_EQ(sum_of_world_ranks(*quarter), 2 * first + 1);
    EXPECT_EQ(sum_of_world_ranks(*half), world.rank() < 4 ? 6 : 22);
  });
}

TEST_P(SubGroups, RowsAndColumnsOfAGridAtOnceFromSeveralThreads) {
  run(6, [](ProcessGroup& world) {
    const int row = world.rank() / 3, column = world.rank() % 3;
    const auto rows = world.split(row);
    const auto columns = world.split(column);
    const auto work = [](ProcessGroup& group, int expected) {
      std::vector<std::int64_t> data(5000);
      for (int i = 0; i < 40; ++i) {
        std::iota(data.begin(), data.end(), group.world_ranks()[static_cast<std::size_t>(group.rank())]);
        group.all_reduce(std::span<std::int64_t>(data));
        for (std::size_t k = 0; k < data.size(); ++k)
          ASSERT_EQ(data[k], expected + group.world_size() * static_cast<std::int64_t>(k));
        std::int64_t here = i, there = -1;
        const int p = group.world_size(), right = (group.rank() + 1) % p, left = (group.rank() + p - 1) % p;
        group.sendrecv(const_buffer(std::span(&here, 1)), right, buffer(std::span(&there, 1)), left);
        ASSERT_EQ(there, i);
      }
    };
    std::thread by_row([&] { work(*rows, 9 * row + 3); });
    std::thread by_column([&] { work(*columns, 2 * column + 3); });
    work(world, 15);
    by_row.join();
    by_column.join();
  });
}

TEST_P(SubGroups, ManyGroupsInARowLeaveNothingBehind) {
  run(3, [](ProcessGroup& world) {
    std::ptrdiff_t descriptors = 0;
    for (int i = 0; i < 30; ++i) {
      if (i == 6) descriptors = descriptors_when_all_rest(world);
      const auto group = world.split(world.rank() == i % 3 ? 1 : 0);
      EXPECT_EQ(sum_of_world_ranks(*group), world.rank() == i % 3 ? i % 3 : 3 - i % 3);
      group->shutdown();
    }
    // Each rank may by now watch over each neighbour of the world, which it does from its first sleep on.
    const std::ptrdiff_t watches = 3 * 2;
    EXPECT_LE(descriptors_when_all_rest(world), descriptors + watches);
  });
}

TEST_P(SubGroups, AMemberThatComesLateIsWaitedFor) {
  // Rank 1's frames come to rank 0 while it knows nothing of the group, and serves only its other operations.
  run(3, [](ProcessGroup& world) {
    const std::vector<int> pair = {0, 1};
    int token[] = {0};
    if (world.rank() == 1) {
      const auto group = world.subgroup(pair);
      Work early = group->all_reduce_async(buffer(std::span<int>(token)));
      for (int i = 0; i < 50; ++i) world.barrier();
      early.wait();
    } else {
      for (int i = 0; i < 50; ++i) world.barrier();
      if (world.rank() == 0) {
        const auto group = world.subgroup(pair);
        group->all_reduce(std::span<int>(token));
      }
    }
  });
}

TEST_P(SubGroups, KeysOfTheirStoresAreTheirOwn) {
  run(4, [](ProcessGroup& world) {
    const Deadline soon = Deadline::after(seconds(10));
    const auto group = world.split(world.rank() % 2);
    if (group->rank() == 0) group->store()->set("who", std::to_string(world.rank()), soon);
    EXPECT_EQ(group->store()->get("who", soon), std::to_string(world.rank() % 2));
    EXPECT_FALSE(world.store()->check(std::vector<std::string>{"who"}, soon));
  });
}

TEST_P(SubGroups, AFailureStaysInTheGroupAndNamesRanksInBothNumberings) {
  run(4, [](ProcessGroup& world) {
    const auto group = world.split(world.rank() / 2);
    const auto sibling = world.split(world.rank() / 2);
    std::vector<float> data(10);
    const auto broken = [&] {
      if (group->rank() == 0) group->all_reduce(std::span<float>(data));
      if (group->rank() == 1) group->broadcast(std::span<float>(data), 0);
      group->barrier();
    };
    if (world.rank() >= 2) {
      const std::string text = text_of(broken);
      expect_parts(text, {"of group 'world/split1/1' (rank " + std::to_string(world.rank()) + " of the world)",
                          "all_reduce seq 1", "broadcast seq 1"});
      test::expect_match(text, "rank (0 .rank 2|1 .rank 3) of the world");
      expect_parts(text_of([&] { group->barrier(); }), {"seq 1"});  // and so from now on
    } else {
      group->barrier();
    }
    EXPECT_EQ(sum_of_world_ranks(*sibling), world.rank() < 2 ? 1 : 5);
    EXPECT_EQ(sum_of_world_ranks(world), 6);
    const auto again = world.split(world.rank() / 2);  // recovery is a new group
    EXPECT_EQ(sum_of_world_ranks(*again), world.rank() < 2 ? 1 : 5);
  });
}

TEST_P(SubGroups, AFailureOfTheParentLeavesItsGroupsAlone) {
  run(2, [](ProcessGroup& world) {
    const auto group = world.split(0);
    if (world.rank() == 0) world.abort("the parent only");
    expect_parts(text_of([&] { world.barrier(); }), {"the parent only"});
    expect_parts(text_of([&] { world.split(0); }), {"the parent only"});
    EXPECT_EQ(sum_of_world_ranks(*group), 1);
    const auto part = group->split(0);
    EXPECT_EQ(sum_of_world_ranks(*part), 1);
  });
}

TEST_P(SubGroups, AMemberThatNeverFormsTheGroupIsNamedAtTheDeadline) {
  run(3, std::chrono::milliseconds(700), [](ProcessGroup& world) {
    const std::vector<int> pair = {1, 2};
    if (world.rank() == 1) {
      const auto group = world.subgroup(pair);
      const std::string text = text_of([&] { group->barrier(); });
      expect_parts(text, {"rank 0/2 of group 'world/ranks-1.2#1' (rank 1 of the world): barrier seq 1",
                          "timed out after", "rank 1 (rank 2 of the world"});
      world.store()->set("told", "", Deadline::after(seconds(10)));
    }
    world.store()->get("told", Deadline::after(seconds(15)));
  });
}

TEST_P(SubGroups, AProcessThatIsGoneIsKnownByItsRankInTheWorld) {
  // As the store's server would note it. Rank 1 of the group is rank 1 of the world; rank 0 is rank 2.
  run(3, [](ProcessGroup& world) {
    const auto group = world.split(world.rank() == 0 ? -1 : 0, -world.rank());
    const Deadline soon = Deadline::after(seconds(15));
    if (world.rank() == 1) {
      world.store()->set(std::string(kLostKeyPrefix) + "2", "pid 4711 has ended", soon);
      expect_parts(text_of([&] { group->barrier(); }), {"lost rank 0 (rank 2 of the world"});
      world.store()->set("told", "", soon);
    }
    world.store()->get("told", soon);
    if (group) group->abort("over");
  });
}

TEST_P(SubGroups, TheyOutliveTheirParent) {
  run(2, [](ProcessGroup& world) {
    const auto group = world.split(0, -world.rank());
    world.shutdown();
    EXPECT_EQ(sum_of_world_ranks(*group), 1);
    expect_parts(text_of([&] { world.split(0); }), {"has been shut down"});
  });
}

TEST_P(SubGroups, ASplitAgainstAnotherOperationIsAMismatch) {
  const auto outcomes = run_to_failure(2, [](ProcessGroup& world) {
    std::vector<float> data(100);
    if (world.rank() == 0) auto group = world.split(0);
    if (world.rank() == 1) world.all_reduce(std::span<float>(data));
    world.barrier();
  });
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome.has_value());
    expect_parts(outcome->what(), {"split seq 1", "all_reduce seq 1"});
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, SubGroups, testing::ValuesIn(kNets), testing::PrintToStringParamName());

TEST(SubGroup, OfAGroupMadeFromATransportAloneIsRefused) {
  ProcessGroup group(std::make_shared<HashStore>(), std::make_unique<LoneTransport>(), {});
  expect_parts(text_of([&] { group.split(0); }), {"without the factory"});
}

TEST(SubGroup, OfProcessesThatMetAtAStore) {
  // Threads that connect as processes do. Sub-groups need no further connection to the store.
  const TcpStoreServer server(test::server_options());
  const auto rank_body = [&](int rank) {
    const auto world = ProcessGroup::connect(test::place_at(server, rank, 4), {.name = "job", .timeout = seconds(20)});
    const auto half = world->split(rank % 2, -rank);
    EXPECT_EQ(half->name(), "job/split1/" + std::to_string(rank % 2));
    EXPECT_EQ(sum_of_world_ranks(*half), rank % 2 == 0 ? 2 : 4);
    const std::vector<int> ends = {3, 0};
    if (rank == 0 || rank == 3) {
      const auto outer = world->subgroup(ends);
      EXPECT_EQ(outer->rank(), rank == 3 ? 0 : 1);
      EXPECT_EQ(sum_of_world_ranks(*outer), 3);
    }
    EXPECT_EQ(sum_of_world_ranks(*world), 6);
  };
  test::in_threads(4, [&](int rank) { EXPECT_NO_THROW(rank_body(rank)); });
}

TEST(SubGroup, OfAWorldOfOneThatConnected) {
  const auto world = ProcessGroup::connect(World{});
  const auto group = world->split(3);
  EXPECT_EQ(group->world_size(), 1);
  EXPECT_EQ(sum_of_world_ranks(*group), 0);
}

}  // namespace
}  // namespace tutti::comm
