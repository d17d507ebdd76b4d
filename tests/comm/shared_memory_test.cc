// Memory that ranks of one host share: files, rings, and the agreement to use them.
#include <gtest/gtest.h>
#include <sched.h>
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
#include <atomic>
#include <cstring>
#include <ctime>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace tutti::comm {
namespace {

using test::Net;
using test::run_ranks;
using test::run_ranks_to_failure;

std::string text_of(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

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
  const std::string shorter =
      text_of(ErrorCode::System, [&] { SharedFile::open(::getpid(), made.descriptor(), 100'000); });
  EXPECT_NE(shorter.find(path), std::string::npos) << shorter;
  EXPECT_NE(shorter.find("100000 bytes"), std::string::npos) << shorter;
  const std::string missing = text_of(ErrorCode::System, [&] { SharedFile::open(::getpid(), 987'654, 1); });
  EXPECT_NE(missing.find("/fd/987654"), std::string::npos) << missing;
}

TEST(Join, ARankThatCannotMapSendsAllToTcp) {
  HashStore store;
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  const std::vector<std::string> hosts{"here", "here"};
  store.set("g/shm/0/segment", "1 99999 5", deadline);  // a descriptor that process 1 does not have
  store.set("g/shm/0/mapped", "1", deadline);           // rank 0 has mapped its own
  EXPECT_EQ(join_neighbours(store, "g", 1, hosts, deadline, [](const std::string&) {}), nullptr);
  EXPECT_EQ(store.get("g/shm/0/verdict", deadline), "tcp");
}

TEST(Join, RanksOfOtherHostsAreNoNeighbours) {
  HashStore store;
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  EXPECT_EQ(join_neighbours(store, "g", 1, {"here", "there", "here"}, deadline, [](const std::string&) {}), nullptr);
}

TEST(Join, AFirstRankWithoutDescriptorsSendsItsSubGroupToTcp) {
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

TEST(Doorbell, HearsOnlyThoseThatKnowItsKey) {
  DoorbellAddress address, other_address;
  Doorbell bell(address);
  Doorbell other(other_address);
  EXPECT_NE(address.name, other_address.name);
  EXPECT_NE(address.key, other_address.key);
  pollfd rung{bell.descriptor(), POLLIN, 0};
  DoorbellAddress guessed = address;  // of the name, which /proc/net/unix shows, and not of the key
  for (std::uint32_t& word : guessed.key) {
    word ^= 1;
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(other.ring(guessed));
    EXPECT_EQ(::poll(&rung, 1, 0), 0) << "it hears strangers";
    word ^= 1;
  }
  EXPECT_TRUE(other.ring(address));
  EXPECT_EQ(::poll(&rung, 1, 0), 1);
}

TEST(ShortCopy, CopiesEveryByteAndNoOther) {
  constexpr std::byte kGuard{0x7e};
  std::vector<std::byte> from(64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  for (std::size_t bytes = 0; bytes <= from.size(); ++bytes) {
    std::vector<std::byte> to(bytes + 2, kGuard);
    copy_short(to.data() + 1, from.data(), bytes);
    EXPECT_EQ(to.front(), kGuard) << bytes;
    EXPECT_EQ(to.back(), kGuard) << bytes;
    EXPECT_TRUE(std::equal(to.begin() + 1, to.end() - 1, from.begin())) << bytes;
  }
}

TEST(StreamCopy, CopiesEveryByteAndNoOther) {
  constexpr std::byte kGuard{0x7e};
  std::vector<std::byte> from(512);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251);
  for (std::size_t offset = 0; offset < 65; ++offset)
    for (const std::size_t bytes : {0, 1, 63, 64, 65, 127, 128, 129, 300}) {
      std::vector<std::byte> to(offset + bytes + 1, kGuard);
      stream_copy(to.data() + offset, from.data() + offset % 3, bytes);
      EXPECT_EQ(std::count(to.begin(), to.begin() + static_cast<std::ptrdiff_t>(offset), kGuard),
                static_cast<std::ptrdiff_t>(offset));
      EXPECT_TRUE(std::equal(to.begin() + static_cast<std::ptrdiff_t>(offset), to.end() - 1,
                             from.begin() + static_cast<std::ptrdiff_t>(offset % 3)))
          << bytes << " bytes at " << offset;
      EXPECT_EQ(to.back(), kGuard);
    }
}

/// Of lengths that are no multiple of a line: of all_gather such that all goes through the caches, that what others
/// have contributed goes past them (whether they hold 32 MiB, or as much as is ever counted on), and that all does.
TEST(SharedCollectives, LargeResultsAreWhole) {
  const auto value = [](std::size_t i, int rank) { return static_cast<float>(i % 1009) + static_cast<float>(rank); };
  run_ranks(2,
            [&](ProcessGroup& group) {
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
              for (std::size_t i = 0; i < data.size(); ++i)
                ASSERT_EQ(data[i], value(i, 1)) << "element " << i << " of broadcast";
            },
            {.net = Net::Shm});
}

TEST(Board, BroadcastsWithTwoRootsAreFoundAtTheNextMeeting) {
  const auto outcomes = run_ranks_to_failure(2,
                                             [](ProcessGroup& group) {
                                               float value = 1;
                                               group.broadcast(std::span<float>(&value, 1), group.rank());
                                               group.all_reduce(std::span<float>(&value, 1));
                                             },
                                             {.net = Net::Shm});
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome);
    const std::string text = outcome->what();
    EXPECT_NE(text.find("broadcast seq 1 (float32 x 1, root 0)"), std::string::npos) << text;
    EXPECT_NE(text.find("broadcast seq 1 (float32 x 1, root 1)"), std::string::npos) << text;
  }
}

/// A root runs ahead of the others until their announcements' places are all in use, and again and again.
TEST(Board, ARootThatRunsAheadWaitsForTheOthers) {
  run_ranks(3,
            [](ProcessGroup& group) {
              for (int round = 0; round < 5'000; ++round) {
                const int root = round / 1'000 % 3;
                std::vector<int> data(round % 7 == 0 ? 300 : 1, group.rank() == root ? round : -1);
                group.broadcast(std::span<int>(data), root);
                ASSERT_EQ(data.front(), round);
                ASSERT_EQ(data.back(), round);
              }
            },
            {.net = Net::Shm});
}

/// The digest tells of a difference some operations later; the text is of the operation that differs.
TEST(Board, TheOldestDifferenceIsTold) {
  const auto outcomes = run_ranks_to_failure(2,
                                             [](ProcessGroup& group) {
                                               float value = 1;
                                               group.all_reduce(std::span<float>(&value, 1));
                                               group.broadcast(std::span<float>(&value, 1), group.rank());
                                               for (int i = 0; i < 5; ++i)
                                                 group.broadcast(std::span<float>(&value, 1), i % 2);
                                               group.barrier();
                                             },
                                             {.net = Net::Shm});
  for (const auto& outcome : outcomes) {
    ASSERT_TRUE(outcome);
    const std::string text = outcome->what();
    EXPECT_NE(text.find("broadcast seq 2 (float32 x 1, root 0)"), std::string::npos) << text;
    EXPECT_NE(text.find("broadcast seq 2 (float32 x 1, root 1)"), std::string::npos) << text;
  }
}

double thread_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// A rank that waits for another, which comes a second late, uses next to no processor time.
TEST(Board, WaitingForALateRankCostsNoProcessor) {
  run_ranks(3,
            [](ProcessGroup& group) {
              group.barrier();
              if (group.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(1));  // the lateness itself
              const double before = thread_cpu_seconds();
              group.barrier();
              EXPECT_LT(thread_cpu_seconds() - before, 0.05);
            },
            {.net = Net::Shm});
}

/// How often this thread has gone to sleep; to give way is none of these.
long sleeps_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

void compute_for(std::chrono::milliseconds time) {
  for (const auto end = std::chrono::steady_clock::now() + time; std::chrono::steady_clock::now() < end;) {
  }
}

/// Threads that are started meanwhile share one processor.
class OneProcessor {
 public:
  OneProcessor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ~OneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t before_{};
};

/// How often rank 1 of four, which share a processor, sleeps in an operation of some 50 waits, after all have computed
/// and met: the median of some rounds.
long sleeps_after_computing() {
  const OneProcessor one;
  std::vector<long> sleeps(9);
  run_ranks(4,
            [&](ProcessGroup& group) {
              std::vector<float> values(1 << 20, 1.0f);
              for (long& slept : sleeps) {
                compute_for(std::chrono::milliseconds(10));
                group.barrier();
                const long before = sleeps_so_far();
                group.all_reduce(std::span(values), ReduceOp::Max);
                if (group.rank() == 1) slept = sleeps_so_far() - before;
              }
            },
            {.net = Net::Shm});
  std::ranges::sort(sleeps);
  return sleeps[sleeps.size() / 2];
}

/// Ranks that share a processor give way to each other as soon as all have come, though while they waited for the last
/// one it computed. It is tried several times, as other programs may have computed as well.
TEST(Board, RanksThatHaveComputedDoNotSleepInWhatFollows) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "built with a sanitizer: waits are long, and ranks rightly sleep";
#endif
  constexpr int kTries = 20;
  long least = sleeps_after_computing();
  for (int tried = 1; tried < kTries && least > 5; ++tried) least = std::min(least, sleeps_after_computing());
  EXPECT_LE(least, 5);
}

}  // namespace
}  // namespace tutti::comm
