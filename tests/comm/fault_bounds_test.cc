// What a rank that does not receive costs the others: bounded memory, a deadline, and no processor time.
#include <gtest/gtest.h>
#include <time.h>
#include <tutti/comm/point_to_point/point_to_point.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/comm/net_test.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/support/watchdog.h>

#include <chrono>
#include <thread>
#include <vector>

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::size_t kSocketBuffers = 40u << 20;  // more than a connection or a ring holds

std::size_t elements(std::size_t nbytes) { return nbytes / sizeof(float); }

milliseconds processor_time(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::duration_cast<milliseconds>(std::chrono::seconds(now.tv_sec) +
                                                  std::chrono::nanoseconds(now.tv_nsec));
}

Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }

/// Waits for the failure of the group without driving any message.
void stay_in_user_code(ProcessGroup& group) { group.store()->get("world/failure", soon()); }

/// How many messages of `nbytes` rank 0 can send to rank 1, which does `meanwhile`, before send() ends with an error.
std::size_t messages_taken(const test::RunRanksOptions& options, std::size_t nbytes, std::size_t at_most,
                           const test::RankBody& meanwhile) {
  std::size_t taken = 0;
  const auto outcomes = run_ranks_to_failure(
      2,
      [&](ProcessGroup& group) {
        if (group.rank() == 1) return meanwhile(group);
        std::vector<float> data(elements(nbytes));
        for (; taken < at_most; ++taken) group.send(std::span<float>(data), 1);
        group.abort("all messages were taken");
      },
      options);
  EXPECT_TRUE(outcomes[0].has_value()) << taken << " messages were taken";
  if (outcomes[0]) {
    const std::string text = outcomes[0]->what();
    test::expect_parts(text, {"timed out after", "rank 1"});
  }
  return taken;
}

/// Over the transports that hold a bounded number of messages: in-process they are always copied.
class FaultBounds : public OverNets {
 protected:
  static RunRanksOptions short_of_time() { return {.net = GetParam(), .group = {.timeout = milliseconds(800)}}; }
};

TEST_P(FaultBounds, MessagesToARankThatNeverReceivesAreKeptUpToALimitThenSendWaitsAndTimesOut) {
  const std::size_t nbytes = 32 * 1024;
  const std::size_t taken = messages_taken(short_of_time(), nbytes, 8192, stay_in_user_code);
  EXPECT_GE(taken * nbytes, kUnsentBytes - nbytes - kMessageBytes);
  EXPECT_LE(taken * nbytes, kUnsentBytes + kSocketBuffers);
}

TEST_P(FaultBounds, EmptyMessagesCountToo) {
  EXPECT_LE(messages_taken(short_of_time(), 0, 2'000'000, stay_in_user_code),
            kUnsentBytes / kMessageBytes + kSocketBuffers / kFrameHeaderBytes);
}

TEST_P(FaultBounds, AReceiverOfOtherTagsKeepsEmptyMessagesUpToItsLimit) {
  const std::size_t taken = messages_taken(short_of_time(), 0, 2'000'000, [](ProcessGroup& group) {
    std::vector<float> data(1);
    EXPECT_THROW(group.recv(std::span<float>(data), 0, 99), Error);
  });
  EXPECT_LE(taken,
            kUnexpectedBytes / kMessageBytes + kUnsentBytes / kMessageBytes + kSocketBuffers / kFrameHeaderBytes);
}

TEST_P(FaultBounds, AnIsendOverTheLimitStaysIncompleteUntilTheReceiverTakesIt) {
  constexpr std::size_t kMessages = (kUnsentBytes + kSocketBuffers) / kEagerBytes + 100;
  run(2, std::chrono::seconds(30), [](ProcessGroup& group) {
    const auto value = [](std::size_t i) { return static_cast<float>(i); };
    if (group.rank() == 0) {
      std::vector<std::vector<float>> data;
      std::vector<Work> works;
      for (std::size_t i = 0; i < kMessages; ++i) {
        data.emplace_back(elements(kEagerBytes), value(i));
        works.push_back(group.isend(buffer(std::span(data.back())), 1));
        // The payload of a completed one is the caller's again.
        if (works.back().is_completed()) data.back().assign(elements(kEagerBytes), -1.0f);
      }
      EXPECT_TRUE(works.front().is_completed());
      EXPECT_FALSE(works.back().is_completed());
      group.store()->set("sent", "", soon());
      for (Work& work : works) work.wait();
    } else {
      group.store()->get("sent", soon());
      std::vector<float> data(elements(kEagerBytes));
      for (std::size_t i = 0; i < kMessages; ++i) {
        group.recv(std::span<float>(data), 0);
        ASSERT_EQ(data, std::vector<float>(data.size(), value(i))) << "message " << i;
      }
    }
  });
}

TEST_P(FaultBounds, AReceiverThatMayNotReadOnSleeps) {
  milliseconds used(0), waited(0);
  const auto outcomes = run_to_failure(2, milliseconds(3500), [&](ProcessGroup& group) {
    std::vector<float> data(elements(kEagerBytes));
    if (group.rank() == 0) {
      std::vector<Work> works;
      for (std::size_t sent = 0; sent < kUnexpectedBytes + 2 * kEagerBytes; sent += kEagerBytes)
        works.push_back(group.isend(buffer(std::span(data)), 1));
      group.store()->set("sent", "", soon());
      works.back().wait();
      return stay_in_user_code(group);
    }
    group.store()->get("sent", soon());
    Work work = group.irecv(buffer(std::span(data)), 0, 99);
    // At first the unexpected messages fill up to their limit; what that costs is not measured.
    for (int quiet = 0; quiet < 3;) {
      const auto before = processor_time(CLOCK_PROCESS_CPUTIME_ID);
      work.wait_for(milliseconds(100));
      quiet = processor_time(CLOCK_PROCESS_CPUTIME_ID) - before < milliseconds(10) ? quiet + 1 : 0;
    }
    const auto begin = steady_clock::now();
    const auto processor = processor_time(CLOCK_THREAD_CPUTIME_ID);
    EXPECT_THROW(work.wait(), Error);
    used = processor_time(CLOCK_THREAD_CPUTIME_ID) - processor;
    waited = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  });
  EXPECT_GE(waited, milliseconds(500));
  EXPECT_LE(used, waited / 10) << "of " << waited.count() << " ms";
}

/// Rank 1 reads no more of what rank 0 sends; rank 0's answer must not lie behind that.
TEST_P(FaultBounds, AReceiverThatMayNotReadOnCanSendALongMessage) {
  constexpr std::size_t kMessages = kUnexpectedBytes / kEagerBytes + 2;
  run(2, std::chrono::seconds(30), [](ProcessGroup& group) {
    std::vector<float> eager(elements(kEagerBytes), 1.0f), longer(elements(4 * kEagerBytes));
    if (group.rank() == 0) {
      std::vector<Work> works;
      for (std::size_t i = 0; i < kMessages; ++i)
        works.push_back(group.isend(buffer(std::span(eager)), 1, i + 1 < kMessages ? 1 : 2));
      group.recv(std::span<float>(longer), 1, 3);
      EXPECT_EQ(longer, std::vector<float>(longer.size(), 7.0f));
      for (Work& work : works) work.wait();
    } else {
      // The last message lies behind more than this rank keeps.
      Work last = group.irecv(buffer(std::span(eager)), 0, 2);
      EXPECT_FALSE(last.wait_for(milliseconds(300)));
      longer.assign(longer.size(), 7.0f);
      group.send(std::span<float>(longer), 0, 3);
      std::vector<float> data(eager.size());
      for (std::size_t i = 0; i + 1 < kMessages; ++i) group.recv(std::span<float>(data), 0, 1);
      last.wait();
    }
  });
}

/// How often wait() returns within 300 ms although nothing that `link` could do has changed.
int returns_of_wait(Transport& transport, Link* link) {
  int returns = 0;
  const auto end = steady_clock::now() + milliseconds(300);
  for (; steady_clock::now() < end && returns < 10'000; ++returns) {
    link->flush();
    transport.wait(std::span(&link, 1), milliseconds(100));
  }
  return returns;
}

TEST_P(FaultBounds, AWaitForRoomToSendSleepsAlthoughSomethingLiesUnread) {
  test::Watchdog watchdog;
  const auto ranks = test::make_transports(GetParam(), 2);
  Link& near = ranks[0]->collective(1);
  Link& far = ranks[1]->collective(0);
  const std::vector<std::byte> payload(64u << 20);
  Outgoing there, back;
  for (Outgoing* frame : {&there, &back}) {
    frame->header.nbytes = payload.size();
    frame->payload = payload.data();
  }
  near.post(there);
  far.post(back);
  for (std::uint64_t before = 1; before != there.written_ || back.written_ == 0;) {
    before = there.written_;
    for (const auto& rank : ranks) rank->wait({}, milliseconds(10));  // long enough for what is under way to arrive
    for (const auto& rank : ranks) rank->service();
    near.flush();
    far.flush();
  }
  EXPECT_LE(returns_of_wait(*ranks[0], &near), 50);

  // Whoever reads after all is woken again by what comes.
  std::vector<std::byte> came(payload.size());
  const Deadline deadline = soon();
  for (std::size_t have = 0; have < came.size();) {
    ASSERT_FALSE(deadline.expired()) << have << " bytes came";
    far.flush();
    const std::size_t some = near.peek() ? near.read(came.data() + have, came.size() - have) : 0;
    have += some;
    if (some > 0 || have == came.size()) continue;
    Link* awaited = &near;
    const auto start = steady_clock::now();
    far.flush();
    ranks[0]->wait(std::span(&awaited, 1), std::chrono::seconds(20));
    EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(10));
  }
}

TEST_P(FaultBounds, AFailedGroupWithUnsentMessagesSleeps) {
  const auto outcomes = run_to_failure(2, std::chrono::seconds(20), [](ProcessGroup& group) {
    if (group.rank() == 1) return stay_in_user_code(group);
    const std::vector<float> data(elements(60 * 1024));
    std::vector<Work> works;
    for (std::size_t sent = 0; sent < kUnsentBytes + kSocketBuffers; sent += 60 * 1024)
      works.push_back(group.isend(const_buffer(std::span(data)), 1));
    group.abort("enough");
    const milliseconds before = processor_time(CLOCK_PROCESS_CPUTIME_ID);
    std::this_thread::sleep_for(milliseconds(500));  // a program that cleans up
    EXPECT_LT(processor_time(CLOCK_PROCESS_CPUTIME_ID) - before, milliseconds(150));
    group.barrier();
  });
  EXPECT_TRUE(outcomes[0].has_value());
}

INSTANTIATE_TEST_SUITE_P(Nets, FaultBounds,
                         testing::ValuesIn(test::available({Net::Tcp, Net::Shm, Net::Tls, Net::Ucx})),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti::comm
