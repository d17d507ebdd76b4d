// What is long between two ranks, read where the other one has it; what if that cannot be done, or is done too late.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/transport/shm/neighbours.h>
#include <tutti/tests/support/run_ranks.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "caught_reads.h"

namespace tutti::comm {
namespace {

using namespace std::chrono_literals;
using test::CaughtReads;
using test::Net;
using test::run_ranks;
using test::run_ranks_to_failure;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kLong = 1 << 20;

/// Two neighbours in this process, of which the second reads the first one's memory.
class ReadMemory : public testing::Test {
 protected:
  bool read(const void* from) {
    return reader_.read_memory(0, reinterpret_cast<std::uintptr_t>(from), std::as_writable_bytes(std::span(into_)));
  }
  RankState& owner() { return owner_.segment().state(0); }

  HostSegment made_ = HostSegment::create(2);
  HostSegment opened_ = HostSegment::open(made_.address(), 2);
  Neighbours owner_{std::move(made_), {0, 1}, 0};
  Neighbours reader_{std::move(opened_), {0, 1}, 1};
  Bytes into_ = Bytes(100'000);
};

TEST_F(ReadMemory, CopiesWhatIsThere) {
  Bytes from(into_.size());
  std::iota(from.begin(), from.end(), std::uint8_t{3});
  ASSERT_TRUE(read(from.data()));
  EXPECT_EQ(into_, from);
}

TEST_F(ReadMemory, WhatIsNotThereCannotBeRead) {
  void* const nothing = ::mmap(nullptr, into_.size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(nothing, MAP_FAILED);
  EXPECT_FALSE(read(nothing));
  ::munmap(nothing, into_.size());
}

TEST_F(ReadMemory, NorWhatEndsTooEarly) {
  const std::size_t page = 4096, whole = (into_.size() / page + 1) * page;
  void* const memory = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_TRUE(read(memory));
  ::munmap(static_cast<std::byte*>(memory) + whole - page, page);
  EXPECT_FALSE(read(memory));
  ::munmap(memory, whole - page);
}

TEST_F(ReadMemory, AProcessThatHasEndedHasNone) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_GT(child, 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  owner().pid = child;
  EXPECT_FALSE(read(into_.data()));
}

TEST_F(ReadMemory, AnotherProcessOfThatNumberIsNotBelieved) {
  const std::uint64_t other = owner_.segment().nonce() + 1;  // where the owner's nonce would be
  owner().nonce_at = reinterpret_cast<std::uintptr_t>(&other);
  EXPECT_FALSE(read(into_.data()));
}

class Always : public testing::TestWithParam<Net> {
 protected:
  void SetUp() override {
    ::setenv("TUTTI_SINGLE_COPY", "always", 1);
    CaughtReads::start();
  }
  void TearDown() override { ::unsetenv("TUTTI_SINGLE_COPY"); }
};

Bytes block_of(int rank, std::size_t nbytes, int round) {
  Bytes block(nbytes);
  for (std::size_t i = 0; i < nbytes; ++i)
    block[i] = static_cast<std::uint8_t>(i % 249 + i / 4096 + 31u * static_cast<unsigned>(rank) +
                                         static_cast<unsigned>(round));
  return block;
}

constexpr std::size_t kLengths[] = {32 * 1024 + 1, 64 * 1024, 100'003, kLong, 3 * kLong + 17};

/// Each call with data of its own, so that nothing that is left over passes for a result.
void broadcast_from_both(ProcessGroup& group) {
  int round = 0;
  for (const std::size_t nbytes : kLengths)
    for (const int root : {0, 1, 1, 0}) {
      Bytes data = block_of(group.rank(), nbytes, ++round);
      group.broadcast(std::span(data), root);
      ASSERT_TRUE(data == block_of(root, nbytes, round)) << nbytes << " bytes of rank " << root;
      std::ranges::fill(data, std::uint8_t{0});  // is the caller's again
    }
}

void gather_in_all_ways(ProcessGroup& group) {
  int round = 100;
  const auto own = static_cast<std::size_t>(group.rank());
  for (const std::size_t nbytes : kLengths)
    for (const bool in_place : {false, true, false}) {
      Bytes whole(2 * nbytes), block = block_of(group.rank(), nbytes, ++round);
      const std::span<std::uint8_t> place = std::span(whole).subspan(own * nbytes, nbytes);
      if (in_place) std::ranges::copy(block, place.begin());
      Work work = group.all_gather_async(in_place ? const_buffer(place) : const_buffer(std::span(block)),
                                         buffer(std::span(whole)));
      work.wait();
      for (const int rank : {0, 1})
        ASSERT_TRUE(std::ranges::equal(std::span(whole).subspan(static_cast<std::size_t>(rank) * nbytes, nbytes),
                                       block_of(rank, nbytes, round)))
            << nbytes << " bytes of rank " << rank;
      ASSERT_TRUE(block == block_of(group.rank(), nbytes, round)) << "the input was written to";
      std::ranges::fill(whole, std::uint8_t{0});
    }
}

void pass_messages(ProcessGroup& group) {
  int round = 200;
  const int peer = 1 - group.rank();
  for (const std::size_t nbytes : kLengths)
    for (const bool waits_first : {false, true}) {
      Bytes mine = block_of(group.rank(), nbytes, ++round), theirs(nbytes);
      Work sent = group.isend(buffer(std::span(mine)), peer, round);
      if (waits_first) group.barrier();  // both messages come before their receives
      EXPECT_EQ(group.recv(std::span(theirs), waits_first ? peer : kAnySource, round), peer);
      sent.wait();
      ASSERT_TRUE(theirs == block_of(peer, nbytes, round)) << nbytes << " bytes";
      std::ranges::fill(mine, std::uint8_t{0});
    }
}

void do_everything(ProcessGroup& group) {
  broadcast_from_both(group);
  gather_in_all_ways(group);
  pass_messages(group);
}

TEST_P(Always, ResultsAreRight) { run_ranks(2, do_everything, {.net = GetParam()}); }

TEST_P(Always, ManyMessagesBetweenManyRanks) {
  run_ranks(4,
            [](ProcessGroup& group) {
              std::vector<Bytes> sent, received(4, Bytes(kLong));
              std::vector<Work> works;
              for (int peer = 0; peer < 4; ++peer) sent.push_back(block_of(group.rank(), kLong, peer));
              for (int peer = 0; peer < 4; ++peer) {
                works.push_back(group.isend(buffer(std::span(sent[static_cast<std::size_t>(peer)])), peer, 1));
                works.push_back(group.irecv(buffer(std::span(received[static_cast<std::size_t>(peer)])), peer, 1));
              }
              for (Work& work : works) work.wait();
              for (int peer = 0; peer < 4; ++peer)
                ASSERT_TRUE(received[static_cast<std::size_t>(peer)] == block_of(peer, kLong, group.rank())) << peer;
            },
            {.net = GetParam()});
}

TEST_P(Always, WhoMayNotReadGetsItAnotherWay) {
  for (const std::vector<int>& forbidden : {std::vector{0}, std::vector{1}, std::vector{0, 1}}) {
    for (const auto& operate : {broadcast_from_both, gather_in_all_ways, pass_messages}) {
      CaughtReads::start();
      std::atomic<bool> works = true;
      run_ranks(2,
                [&](ProcessGroup& group) {
                  const bool caught = std::ranges::count(forbidden, group.rank()) > 0;
                  if (caught && !CaughtReads::catch_reads(CaughtReads::AreRefused)) works = false;
                  group.barrier();
                  if (works) operate(group);
                },
                {.net = GetParam()});
      if (!works) GTEST_SKIP() << "no system calls can be caught here";
      EXPECT_GE(CaughtReads::tries(), 1);
      EXPECT_LE(CaughtReads::tries(), 2) << "what does not work is tried again and again";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, Always, testing::Values(Net::Shm, Net::Mixed),
                         [](const auto& net) { return test::name(net.param); });

using Late = Always;

void broadcast(ProcessGroup& group, Bytes& data) { group.broadcast(std::span(data), 0); }
void gather(ProcessGroup& group, Bytes& data) {
  Bytes whole(2 * data.size());
  group.all_gather(const_buffer(std::span(data)), buffer(std::span(whole)));
}
void send(ProcessGroup& group, Bytes& data) {
  if (group.rank() == 0) group.send(std::span(data), 1);
  if (group.rank() == 1) group.recv(std::span(data), 0);
}

/// Rank 1 reads only when rank 0 has given up and written something else.
TEST_P(Late, WhatIsReadAfterADeadlineIsNoResult) {
  for (const auto& operate : {broadcast, gather, send}) {
    CaughtReads::start();
    std::atomic<bool> works = true, taken = false;
    std::promise<void> read;
    std::array<Bytes, 2> blocks{Bytes(kLong, std::uint8_t{1}), Bytes(kLong, std::uint8_t{1})};
    const auto ends = run_ranks_to_failure(2,
                                           [&](ProcessGroup& group) {
                                             Bytes& data = blocks[static_cast<std::size_t>(group.rank())];
                                             if (group.rank() == 1)
                                               works = CaughtReads::catch_reads(CaughtReads::AreLate);
                                             group.barrier();
                                             if (!works) return;
                                             const auto leave = [&] {
                                               if (group.rank() == 1) return read.set_value();
                                               CaughtReads::release();
                                               read.get_future().wait();  // until then this rank's memory stays
                                             };
                                             try {
                                               operate(group, data);
                                               taken = taken || group.rank() == 1;
                                             } catch (const Error&) {
                                               std::ranges::fill(data, std::uint8_t{7});
                                               leave();
                                               throw;
                                             }
                                             leave();
                                           },
                                           {.net = GetParam(), .group = {.timeout = 300ms}});
    if (!works) GTEST_SKIP() << "no system calls can be caught here";
    EXPECT_GE(CaughtReads::tries(), 1);
    ASSERT_TRUE(ends[0]);
    EXPECT_EQ(ends[0]->code(), ErrorCode::Timeout) << ends[0]->what();
    EXPECT_FALSE(taken) << "rank 1 has taken for a result what was written after rank 0's deadline";
    ASSERT_TRUE(ends[1]);
    EXPECT_NE(std::string(ends[1]->what()).find("first cause: rank 0"), std::string::npos) << ends[1]->what();
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, Late, testing::Values(Net::Shm), [](const auto& net) { return test::name(net.param); });

}  // namespace
}  // namespace tutti::comm
