// What every Transport promises, on each of its lanes and in both directions.
#include <gtest/gtest.h>
#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/transport.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/support/watchdog.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <functional>
#include <list>
#include <numeric>
#include <thread>
#include <tuple>

namespace tutti::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using test::Net;
using test::Watchdog;

/// Which of the links between rank 0 and rank 1 carries the frames, and which way.
enum class Lane { CollectiveUp, CollectiveDown, MessageUp, MessageDown, AnswerUp, AnswerDown };

using Bytes = std::vector<std::byte>;

Bytes pattern(std::size_t count, unsigned seed) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 251 + seed * 7);
  return bytes;
}

FrameHeader header_of(const Bytes& payload, std::uint64_t id) {
  return {.kind = FrameKind::Collective,
          .fingerprint = {.group = identity_hash("world"), .seq = 9, .count = payload.size(), .op = OpKind::AllReduce},
          .nbytes = payload.size(),
          .id = id};
}

class Transports : public testing::TestWithParam<std::tuple<Net, Lane>> {
 protected:
  Transports() {
    ranks_ = test::make_transports(std::get<Net>(GetParam()), 2);
    const Lane lane = std::get<Lane>(GetParam());
    const bool up = lane == Lane::CollectiveUp || lane == Lane::MessageUp || lane == Lane::AnswerUp;
    sender_ = ranks_[up ? 0 : 1].get();
    receiver_ = ranks_[up ? 1 : 0].get();
    out_ = &link(*sender_, lane);
    in_ = &link(*receiver_, lane);
  }

  static Link& link(Transport& transport, Lane lane) {
    const int peer = 1 - transport.rank();
    if (lane == Lane::CollectiveUp || lane == Lane::CollectiveDown) return transport.collective(peer);
    return lane == Lane::MessageUp || lane == Lane::MessageDown ? transport.messages(peer) : transport.answers(peer);
  }

  Outgoing& frame_of(const Bytes& payload, std::uint64_t id) {
    Outgoing& frame = posted_.emplace_back();
    frame.header = header_of(payload, id);
    frame.payload = payload.data();
    return frame;
  }

  Outgoing& post(const Bytes& payload, std::uint64_t id) {
    Outgoing& frame = frame_of(payload, id);
    out_->post(frame);
    return frame;
  }

  /// Drives both ranks on this thread until `done`.
  void drive_until(const std::function<bool()>& done) {
    const Deadline deadline = Deadline::after(seconds(30));
    while (!done()) {
      ASSERT_FALSE(deadline.expired()) << "no progress";
      sender_->service();
      receiver_->service();
      out_->flush();
      in_->peek();
    }
  }

  const FrameHeader& next_header() {
    const FrameHeader* header = nullptr;
    drive_until([&] { return (header = in_->peek()) != nullptr; });
    if (!header) throw std::runtime_error("no frame came");
    return *header;
  }

  /// Reads the frame at the head in portions of `portion` bytes.
  Bytes read_frame(std::size_t portion) {
    Bytes payload(next_header().nbytes);
    std::size_t have = 0;
    if (payload.empty()) in_->read(nullptr, 0);
    drive_until([&] {
      if (have < payload.size()) have += in_->read(payload.data() + have, std::min(portion, payload.size() - have));
      return have == payload.size();
    });
    return payload;
  }

  void exchange_one() {
    const Bytes payload = pattern(10, 1);
    post(payload, 1);
    EXPECT_EQ(read_frame(10), payload);
  }

  /// The PeerLost text that `action`, done again and again, ends with.
  std::string lost_text(const std::function<void()>& action) {
    const Deadline deadline = Deadline::after(seconds(30));
    while (!deadline.expired()) {
      try {
        action();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::PeerLost) << error.what();
        return error.what();
      }
    }
    ADD_FAILURE() << "the link was never lost";
    return {};
  }

  Watchdog watchdog_{seconds(60)};
  std::vector<std::unique_ptr<Transport>> ranks_;
  Transport* sender_ = nullptr;
  Transport* receiver_ = nullptr;
  Link* out_ = nullptr;
  Link* in_ = nullptr;
  std::list<Outgoing> posted_;
};

TEST_P(Transports, LinksKnowTheirPeers) {
  EXPECT_EQ(out_->peer(), receiver_->rank());
  EXPECT_EQ(in_->peer(), sender_->rank());
  EXPECT_EQ(sender_->world_size(), 2);
  test::expect_parts(sender_->describe(receiver_->rank()), {"rank " + std::to_string(receiver_->rank())});
}

TEST_P(Transports, FramesArriveWholeAndInOrder) {
  std::vector<Bytes> payloads;
  for (unsigned i = 0; i < 100; ++i) payloads.push_back(pattern(i * 97 % 5000, i));
  for (unsigned i = 0; i < 100; ++i) post(payloads[i], i);
  for (unsigned i = 0; i < 100; ++i) {
    const FrameHeader header = next_header();
    EXPECT_EQ(header.id, i);
    EXPECT_EQ(header.fingerprint, header_of(payloads[i], i).fingerprint);
    ASSERT_EQ(read_frame(1 << 20), payloads[i]) << "frame " << i;
  }
  EXPECT_EQ(in_->peek(), nullptr);
  drive_until([&] { return out_->flush(); });
  for (const Outgoing& frame : posted_) EXPECT_TRUE(frame.done());
}

TEST_P(Transports, QueuedFramesLeaveTogetherWholeAndInOrder) {
  std::vector<Bytes> payloads;
  for (unsigned i = 0; i < 150; ++i) payloads.push_back(pattern(i % 7 == 0 ? 0 : i % 5 == 0 ? 300'000 : i * 13, i));
  for (unsigned i = 0; i < 150; ++i) out_->queue(frame_of(payloads[i], i));
  for (unsigned i = 0; i < 150; ++i) {
    ASSERT_EQ(next_header().id, i);
    ASSERT_EQ(read_frame(100'000), payloads[i]) << i;
  }
  for (const Outgoing& frame : posted_) EXPECT_TRUE(frame.done());
}

TEST_P(Transports, TheHeaderIsThereBeforeThePayloadAndStaysUntilItIsRead) {
  const Bytes payload = pattern(24 * 1024 * 1024, 2);  // more than fits into socket buffers
  const Outgoing& frame = post(payload, 7);
  const FrameHeader* header = &next_header();
  EXPECT_FALSE(frame.done());
  EXPECT_EQ(header->nbytes, payload.size());
  Bytes beginning(100);
  std::size_t have = 0;
  drive_until([&] {
    have += in_->read(beginning.data() + have, beginning.size() - have);
    return have == beginning.size();
  });
  ASSERT_EQ(in_->peek(), header);
  EXPECT_EQ(header->id, 7u);
  EXPECT_TRUE(std::equal(beginning.begin(), beginning.end(), payload.begin()));
}

TEST_P(Transports, PayloadsMayBeReadInPortionsOfAnySize) {
  for (const std::size_t portion : {1, 7, 56, 4095, 4096, 4097, 32 * 1024, 100'000}) {
    const Bytes payload = pattern(portion < 50 ? 5000 : 300'001, static_cast<unsigned>(portion));
    const Bytes tail = pattern(60, 3);
    post(payload, 1);
    post(tail, 2);
    ASSERT_EQ(read_frame(portion), payload) << "portions of " << portion;
    ASSERT_EQ(read_frame(portion), tail) << "after portions of " << portion;
  }
}

TEST_P(Transports, ReadGivesNoMoreThanTheCurrentFrame) {
  const Bytes first = pattern(5000, 1);
  const Bytes second = pattern(20, 2);
  post(first, 1);
  post(second, 2);
  next_header();
  Bytes big(10'000, std::byte{0xee});
  std::size_t have = 0;
  drive_until([&] {
    if (have < first.size()) have += in_->read(big.data() + have, big.size() - have);
    return have >= first.size();
  });
  EXPECT_EQ(have, first.size());
  EXPECT_EQ(big[first.size()], std::byte{0xee});
  EXPECT_EQ(next_header().id, 2u);
  EXPECT_EQ(read_frame(100), second);
}

TEST_P(Transports, FramesWithoutPayloadAreConsumedByAnEmptyRead) {
  const Bytes nothing;
  const Bytes something = pattern(3, 3);
  for (unsigned i = 0; i < 50; ++i) post(nothing, i);
  post(something, 50);
  for (unsigned i = 0; i < 50; ++i) {
    EXPECT_EQ(next_header().id, i);
    EXPECT_EQ(in_->read(nullptr, 0), 0u);
  }
  EXPECT_EQ(next_header().id, 50u);
  EXPECT_EQ(read_frame(3), something);
}

TEST_P(Transports, HugePayloadsCrossInBothDirectionsOnOneThread) {
  exchange_one();  // so that the answering direction has a connection
  const Bytes there = pattern(16 * 1024 * 1024, 4);
  const Bytes back = pattern(12 * 1024 * 1024, 5);
  post(there, 1);
  Outgoing answer;
  answer.header = header_of(back, 2);
  answer.payload = back.data();
  in_->post(answer);
  Bytes there_came(there.size()), back_came(back.size());
  std::size_t there_have = 0, back_have = 0;
  const auto advance = [](Link& link, Bytes& into, std::size_t& have) {
    if (have < into.size() && link.peek()) have += link.read(into.data() + have, into.size() - have);
  };
  const Deadline deadline = Deadline::after(seconds(30));
  while (there_have < there.size() || back_have < back.size()) {
    ASSERT_FALSE(deadline.expired()) << there_have << " and " << back_have << " bytes came";
    out_->flush();
    in_->flush();
    advance(*in_, there_came, there_have);
    advance(*out_, back_came, back_have);
  }
  EXPECT_EQ(there_came, there);
  EXPECT_EQ(back_came, back);
}

TEST_P(Transports, LanesDoNotWaitForEachOther) {
  exchange_one();
  // A frame that nobody reads lies on every other lane, in both directions.
  const Bytes waiting = pattern(100'000, 6);
  std::vector<Link*> others;
  for (Transport* transport : {sender_, receiver_}) {
    const int peer = 1 - transport->rank();
    for (Link* other : {&transport->collective(peer), &transport->messages(peer), &transport->answers(peer)})
      if (other != out_ && other != in_) others.push_back(other);
  }
  for (Link* other : others) {
    Outgoing& frame = posted_.emplace_back();
    frame.header = header_of(waiting, 99);
    frame.payload = waiting.data();
    other->post(frame);
  }
  for (unsigned i = 0; i < 20; ++i) {
    for (Link* other : others) other->flush();
    const Bytes payload = pattern(5000, i);
    post(payload, i);
    EXPECT_EQ(next_header().id, i);
    EXPECT_EQ(read_frame(5000), payload);
  }
}

TEST_P(Transports, FramesSentBeforeCloseAreReadAndThenThePeerIsLost) {
  std::vector<Bytes> payloads;
  for (unsigned i = 0; i < 20; ++i) payloads.push_back(pattern(2000 + i, i));
  exchange_one();
  for (unsigned i = 0; i < 20; ++i) post(payloads[i], i);
  ASSERT_TRUE(out_->flush());
  sender_->close();
  for (unsigned i = 0; i < 20; ++i) {
    const FrameHeader* header = nullptr;
    while (!(header = in_->peek())) receiver_->wait(std::span(&in_, 1), milliseconds(1000));
    EXPECT_EQ(header->id, i);
    Bytes came(header->nbytes);
    for (std::size_t have = 0; have < came.size();) have += in_->read(came.data() + have, came.size() - have);
    EXPECT_EQ(came, payloads[i]);
  }
  const std::string text = lost_text([&] { in_->peek(); });
  test::expect_parts(text, {"rank " + std::to_string(sender_->rank())});
  lost_text([&] { in_->peek(); });  // and it stays so
  lost_text([&] { out_->peek(); });
}

TEST_P(Transports, WhatArrivedCanBeReadAfterAFailedSend) {
  exchange_one();
  const Bytes last_words = pattern(3000, 8);
  post(last_words, 1);
  ASSERT_TRUE(out_->flush());
  sender_->close();
  std::list<Outgoing> answers;
  const Bytes answer(100'000);
  lost_text([&] {
    Outgoing& frame = answers.emplace_back();
    frame.header = header_of(answer, 2);
    frame.payload = answer.data();
    in_->post(frame);
    in_->flush();
  });
  const FrameHeader* header = in_->peek();
  ASSERT_NE(header, nullptr);
  Bytes came(header->nbytes);
  for (std::size_t have = 0; have < came.size();) have += in_->read(came.data() + have, came.size() - have);
  EXPECT_EQ(came, last_words);
  lost_text([&] { in_->peek(); });
}

TEST_P(Transports, APeerThatClosesInMidFrameIsLost) {
  const Bytes payload = pattern(24 * 1024 * 1024, 9);
  post(payload, 1);
  next_header();
  sender_->close();
  Bytes came(payload.size());
  std::size_t have = 0;
  lost_text([&] {
    if (in_->peek()) have += in_->read(came.data() + have, came.size() - have);
  });
  EXPECT_LT(have, payload.size());
  EXPECT_TRUE(std::equal(came.begin(), came.begin() + static_cast<std::ptrdiff_t>(have), payload.begin()));
}

TEST_P(Transports, CloseByAnotherThreadEndsAWait) {
  exchange_one();
  std::atomic<bool> waits{false};
  std::string text;
  std::thread waiter([&] {
    text = lost_text([&] {
      in_->peek();
      waits = true;
      receiver_->wait(std::span(&in_, 1), seconds(20));
    });
  });
  while (!waits) std::this_thread::yield();
  const auto start = steady_clock::now();
  receiver_->close();
  waiter.join();
  EXPECT_LT(steady_clock::now() - start, seconds(10));
  test::expect_parts(text, {"closed its connections"});
}

TEST_P(Transports, WaitEndsWhenSomethingHasCome) {
  exchange_one();
  std::atomic<bool> waits{false};
  std::thread waiter([&] {
    while (!in_->peek()) {
      waits = true;
      receiver_->wait(std::span(&in_, 1), seconds(20));
    }
  });
  while (!waits) std::this_thread::yield();
  const auto start = steady_clock::now();
  const Bytes payload = pattern(10, 1);
  post(payload, 1);
  waiter.join();
  EXPECT_LT(steady_clock::now() - start, seconds(10));
}

TEST_P(Transports, WaitEndsAtItsTimeout) {
  exchange_one();
  const auto start = steady_clock::now();
  while (steady_clock::now() - start < milliseconds(50)) receiver_->wait(std::span(&in_, 1), milliseconds(60));
  EXPECT_LT(steady_clock::now() - start, seconds(5));
}

/// True when that thread of ours sleeps in the kernel.
bool asleep(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(stat, text);
  const auto end_of_name = text.rfind(") ");
  return end_of_name != std::string::npos && text[end_of_name + 2] == 'S';
}

TEST_P(Transports, WakeEndsEveryWait) {
  exchange_one();
  std::atomic<pid_t> threads[2] = {0, 0};
  std::atomic<int> returned{0};
  std::vector<std::jthread> waiters;
  for (auto& thread : threads)
    waiters.emplace_back([&] {
      thread = ::gettid();
      receiver_->wait(std::span(&in_, 1), seconds(20));
      ++returned;
    });
  const auto both_sleep = [&] {
    return threads[0] != 0 && threads[1] != 0 && asleep(threads[0]) && asleep(threads[1]);
  };
  while (returned == 0 && !both_sleep()) std::this_thread::yield();
  const auto start = steady_clock::now();
  receiver_->wake();
  waiters.clear();  // which have ended
  EXPECT_LT(steady_clock::now() - start, seconds(10));
}

std::string case_name(const testing::TestParamInfo<std::tuple<Net, Lane>>& info) {
  static const char* const kLanes[] = {"CollectiveUp", "CollectiveDown", "MessageUp",
                                       "MessageDown",  "AnswerUp",       "AnswerDown"};
  return test::name(std::get<Net>(info.param)) + kLanes[static_cast<int>(std::get<Lane>(info.param))];
}

INSTANTIATE_TEST_SUITE_P(Lanes, Transports,
                         testing::Combine(testing::ValuesIn(test::available({Net::Tcp, Net::Shm, Net::Tls, Net::Ucx})),
                                          testing::Values(Lane::CollectiveUp, Lane::CollectiveDown, Lane::MessageUp,
                                                          Lane::MessageDown, Lane::AnswerUp, Lane::AnswerDown)),
                         case_name);

}  // namespace
}  // namespace tutti::comm
