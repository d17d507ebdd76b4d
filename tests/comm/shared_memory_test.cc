// Memory that ranks of one host share: files, rings, and the agreement to use them.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <tutti/comm/base/copy.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/transport/shm/shared_file.h>
#include <tutti/tests/support/run_ranks.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using test::expect_error;
using test::Net;
using test::run_ranks;
using test::run_ranks_to_failure;

TEST(SharedFile, IsZeroedAndSeenByWhoOpensIt) {
  const SharedFile made = SharedFile::create("test", 10'000);
  const SharedFile opened = SharedFile::open(::getpid(), made.descriptor(), 10'000);
  EXPECT_NE(made.data(), opened.data());
  EXPECT_EQ(opened.data()[9'999], std::byte{0});
  made.data()[9'999] = std::byte{7};
  EXPECT_EQ(opened.data()[9'999], std::byte{7});
}

TEST(SharedFile, OutlivesItsMaker) {
  SharedFile opened;
  {
    const SharedFile made = SharedFile::create("test", 4096);
    made.data()[0] = std::byte{1};
    opened = SharedFile::open(::getpid(), made.descriptor(), 4096);
  }
  EXPECT_EQ(opened.data()[0], std::byte{1});
}

TEST(SharedFile, WhatIsNotThereOrTooShortIsNamed) {
  const SharedFile made = SharedFile::create("test", 4096);
  const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(made.descriptor());
  expect_error(ErrorCode::System, {path, "100000 bytes"},
               [&] { SharedFile::open(::getpid(), made.descriptor(), 100'000); });
  expect_error(ErrorCode::System, {"/fd/987654"}, [&] { SharedFile::open(::getpid(), 987'654, 1); });
}

TEST(Join, ARankThatCannotMapSendsAllToTcp) {
  HashStore store;
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  const std::vector<std::string> hosts{"here", "here"};
  store.set("g/shm/0/first", "1 99999 5", deadline);  // a descriptor that process 1 does not have
  store.set("g/shm/0/mapped", "1", deadline);         // rank 0 has mapped its own
  EXPECT_EQ(join_neighbours(store, "g", 1, hosts, deadline, [](const std::string&) {}), nullptr);
  EXPECT_EQ(store.get("g/shm/0/verdict", deadline), "tcp");
}

TEST(Join, RanksOfOtherHostsAreNoNeighbours) {
  HashStore store;
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  EXPECT_EQ(join_neighbours(store, "g", 1, {"here", "there", "here"}, deadline, [](const std::string&) {}), nullptr);
}

TEST(Join, AFirstRankWithoutDescriptorsSendsItsSubGroupToTcp) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the undefined behaviour sanitizer looks at memory through a pipe, which needs descriptors";
#endif
  HashStore store;
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{3, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &none);
  const auto first = join_known_neighbours(store, "g", 1, {0, 1}, deadline);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(first, nullptr);
  EXPECT_EQ(join_known_neighbours(store, "g", 0, {0, 1}, deadline), nullptr);
}

TEST(Doorbell, IsRungByTheProcessesThatHaveItsAddressAndByNoLaterOne) {
  DoorbellAddress address{}, ended{};
  pollfd rung{};
  {
    Doorbell bell;
    const Doorbell other;
    address = bell.address();
    rung = {bell.descriptor(), POLLIN, 0};
    ended = {address.pid, address.descriptor, other.address().inode};  // what was there before
    EXPECT_FALSE(Doorbell::ring(ended));
    EXPECT_EQ(::poll(&rung, 1, 0), 0);
    for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(Doorbell::ring(address)) << "a full pipe is no failure";
    EXPECT_EQ(::poll(&rung, 1, 0), 1);
    bell.silence();
    EXPECT_EQ(::poll(&rung, 1, 0), 0);
    bell.ring();
    EXPECT_EQ(::poll(&rung, 1, 0), 1);
  }
  EXPECT_FALSE(Doorbell::ring(address));
}

using Copy = void (*)(std::byte* to, const std::byte* from, std::size_t bytes);

class Copies : public testing::TestWithParam<Copy> {};

TEST_P(Copies, EveryByteAndNoOther) {
  constexpr std::byte kGuard{0x7e};
  std::vector<std::byte> from(512);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251);
  for (std::size_t offset = 0; offset < 65; ++offset)
    for (std::size_t bytes = 0; bytes <= 300; bytes += bytes < 130 ? 1 : 170) {
      std::vector<std::byte> to(offset + bytes + 1, kGuard);
      GetParam()(to.data() + offset, from.data() + offset % 3, bytes);
      const auto begin = to.begin() + static_cast<std::ptrdiff_t>(offset);
      EXPECT_EQ(std::count(to.begin(), begin, kGuard), begin - to.begin());
      EXPECT_TRUE(std::equal(begin, to.end() - 1, from.begin() + static_cast<std::ptrdiff_t>(offset % 3)))
          << bytes << " bytes at " << offset;
      EXPECT_EQ(to.back(), kGuard);
    }
}

INSTANTIATE_TEST_SUITE_P(OfBothKinds, Copies, testing::Values(copy_short, stream_copy));

/// Of lengths that are no multiple of a line: of all_gather such that all goes through the caches, that what others
/// have contributed goes past them (whether they hold 32 MiB, or as much as is ever counted on), and that all does.
TEST(SharedCollectives, LargeResultsAreWhole) {
  const auto value = [](std::size_t i, int rank) { return static_cast<float>(i % 1009) + static_cast<float>(rank); };
  run_ranks(Net::Shm, 2, [&](ProcessGroup& group) {
    for (const std::size_t block : {1'100'003, 2'200'003, 4'300'003, 8'500'001}) {
      std::vector<float> own(block), all(2 * block);
      for (std::size_t i = 0; i < block; ++i) own[i] = value(i, group.rank());
      group.all_gather(std::span<const float>(own), std::span<float>(all));
      for (std::size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(all[i], value(i % block, i < block ? 0 : 1)) << "element " << i << " of all_gather";
    }
    std::vector<float> data(8'500'001);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = value(i, group.rank());
    group.broadcast(std::span<float>(data), 1);
    for (std::size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], value(i, 1)) << "element " << i << " of broadcast";
  });
}

/// A root runs ahead of the others until their announcements' places are all in use, and again and again.
TEST(Announcements, ARootThatRunsAheadWaitsForTheOthers) {
  run_ranks(Net::Shm, 3, [](ProcessGroup& group) {
    for (int round = 0; round < 5'000; ++round) {
      const int root = round / 1'000 % 3;
      std::vector<int> data(round % 7 == 0 ? 300 : 1, group.rank() == root ? round : -1);
      group.broadcast(std::span<int>(data), root);
      ASSERT_EQ(data.front(), round);
      ASSERT_EQ(data.back(), round);
    }
  });
}

/// The digest tells of a difference some operations later; the text is of the operation that differs.
TEST(Announcements, TheOldestDifferenceIsTold) {
  const auto outcomes = run_ranks_to_failure(Net::Shm, 2, [](ProcessGroup& group) {
    float value = 1;
    group.all_reduce(std::span<float>(&value, 1));
    group.broadcast(std::span<float>(&value, 1), group.rank());
    for (int i = 0; i < 5; ++i) group.broadcast(std::span<float>(&value, 1), i % 2);
    group.barrier();
  });
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome);
    const std::string text = outcome->what();
    test::expect_parts(text, {"broadcast seq 2 (float32 x 1, root 0)", "broadcast seq 2 (float32 x 1, root 1)"});
  }
}

}  // namespace
}  // namespace tutti::comm
