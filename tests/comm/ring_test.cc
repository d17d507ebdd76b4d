// The rings of shared memory: frames of all lengths, and room.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/ring.h>
#include <tutti/comm/transport/shm/shared_file.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

/// A ring of 16 KiB of payload and both of its ends, where payloads of so many bytes are read past the caches.
struct Ring {
  std::size_t past_caches = 8'000;
  static constexpr std::size_t kBytes = sizeof(RingControl) + 16 * 1024;
  std::vector<std::byte> bytes = std::vector<std::byte>(kBytes + 2 * kLine);
  RingMemory memory{aligned(bytes.data()), kBytes};
  RingWriter writer{memory};
  RingReader reader{memory, 5, past_caches};

  static std::byte* aligned(std::byte* data) {
    return data + 2 * kLine - reinterpret_cast<std::uintptr_t>(data) % (2 * kLine);
  }
};

Outgoing frame_of(const std::vector<std::byte>& payload, std::uint64_t id) {
  Outgoing frame;
  frame.header = {FrameKind::Eager, {.group = 5, .count = payload.size(), .op = OpKind::Send}, payload.size(), id};
  frame.payload = payload.data();
  return frame;
}

TEST(Ring, FramesOfAllLengthsGoRoundAndRound) {
  Ring ring;
  std::mt19937 random(1);
  std::vector<std::byte> got;
  for (std::uint64_t id = 0; id < 3'000; ++id) {
    std::vector<std::byte> payload(id % 3 == 0 ? random() % 40 : random() % 40'000);
    for (std::byte& byte : payload) byte = static_cast<std::byte>(random());
    Outgoing frame = frame_of(payload, id);
    got.assign(payload.size(), std::byte{0});
    std::size_t have = 0;
    const FrameHeader* header = nullptr;
    bool read = false;
    for (int turns = 0; !read; ++turns) {
      ASSERT_LT(turns, 100'000) << "frame " << id << " is stuck";
      if (!frame.done()) ring.writer.write(frame);
      if (!header && !(header = ring.reader.peek())) continue;
      if (have == 0) {
        ASSERT_EQ(header->id, id);
        ASSERT_EQ(header->nbytes, payload.size());
      }
      if (payload.empty()) ring.reader.read(nullptr, 0);
      have += ring.reader.read(got.data() + have, std::min<std::size_t>(random() % 9'000, payload.size() - have));
      read = frame.done() && have == payload.size();
    }
    ASSERT_EQ(got, payload) << "frame " << id;
  }
}

TEST(Ring, APayloadThatLooksLikeAFrameIsNone) {
  Ring ring;
  std::uint64_t position = 0;
  std::vector<std::byte> got(4'000);
  for (std::uint64_t id = 0; id < 200; ++id) {
    // Each line of the payload carries the stamp that the same place will have one round later.
    std::vector<std::byte> payload(4'000);
    for (std::size_t at = 0; at + kLine <= payload.size(); at += kLine) {
      const std::uint64_t stamp = position + kLine + at + ring.memory.capacity + 1;
      std::memcpy(payload.data() + at, &stamp, sizeof stamp);
    }
    Outgoing frame = frame_of(payload, id);
    ASSERT_TRUE(ring.writer.write(frame));
    ASSERT_TRUE(frame.done());
    ASSERT_EQ(ring.reader.peek()->id, id);
    ASSERT_EQ(ring.reader.read(got.data(), got.size()), got.size());
    ASSERT_EQ(ring.reader.peek(), nullptr) << "after frame " << id;
    position += kLine + (payload.size() + kLine - 1) / kLine * kLine;
  }
}

/// What is written and read of a ring, and in between.
struct Traffic {
  Ring& ring;
  std::uint64_t written = 0, read = 0;
  std::vector<std::byte> got = std::vector<std::byte>(20'000);

  static std::vector<std::byte> payload_of(std::uint64_t id, std::size_t bytes) {
    std::vector<std::byte> payload(bytes);
    for (std::size_t i = 0; i < bytes; ++i) payload[i] = static_cast<std::byte>(id * 31 + i);
    return payload;
  }
  bool write(std::size_t bytes) {
    const auto payload = payload_of(written, bytes);
    if (!ring.writer.write_whole(frame_of(payload, written).header, payload.data())) return false;
    ++written;
    return true;
  }
  void take_one() {
    ASSERT_TRUE(ring.reader.has_news()) << "frame " << read;
    const FrameHeader* header = ring.reader.peek();
    ASSERT_TRUE(header) << "frame " << read;
    ASSERT_EQ(header->id, read);
    ASSERT_TRUE(ring.reader.payload_is_here());
    const std::size_t bytes = header->nbytes;
    ASSERT_EQ(ring.reader.read(bytes > 0 ? got.data() : nullptr, bytes), bytes);
    const auto expected = payload_of(read++, bytes);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), got.begin())) << "frame " << read - 1;
    ASSERT_EQ(ring.reader.has_news(), read < written) << "after frame " << read - 1;
  }
};

TEST(Ring, WholeFramesAreWrittenAtOnceOrNotAtAllAndArriveInOrder) {
  Ring ring;
  Traffic traffic{ring};
  std::mt19937 random(4);
  while (traffic.read < 20'000 && !HasFailure()) {
    const std::size_t longest = random() % 8 == 0 ? 8'000 : 300 * (random() % 8) + 8;
    while (traffic.write(random() % longest)) continue;  // until the ring is full
    for (std::size_t frames = random() % 40; frames > 0 && traffic.read < traffic.written; --frames) traffic.take_one();
  }
  const std::vector<std::byte> longer(ring.memory.capacity);
  EXPECT_FALSE(ring.writer.write_whole(frame_of(longer, 0).header, longer.data()));
}

TEST(Ring, WhoWaitsForRoomCanGoOnAsSoonAsThereIsSome) {
  Ring ring;
  Traffic traffic{ring};
  std::mt19937 random(5);
  int waits = 0;
  for (int round = 0; round < 2'000 && !HasFailure(); ++round) {
    const std::size_t longest = round % 2 == 0 ? 8 : 3'000;
    const std::size_t bytes = random() % longest;
    for (std::size_t frames = random() % 99; frames > 0 && !HasFailure(); --frames) {
      ASSERT_TRUE(traffic.write(bytes)) << "frame " << traffic.written;
      traffic.take_one();
    }
    while (traffic.write(random() % longest)) continue;
    const auto payload = Traffic::payload_of(traffic.written, 5'000 + random() % 9'000);
    Outgoing frame = frame_of(payload, traffic.written++);
    bool wrote = ring.writer.write(frame);
    while (!frame.done() && !HasFailure()) {
      ring.writer.wait_for_room(true);
      wrote = ring.writer.can_go_on();
      ASSERT_EQ(ring.writer.write(frame), wrote) << "round " << round;
      if (wrote) continue;
      ++waits;
      if (traffic.read + 1 < traffic.written) {
        traffic.take_one();
      } else {
        const FrameHeader* header = ring.reader.peek();
        ASSERT_TRUE(header);
        ASSERT_EQ(header->id, traffic.read);
        ASSERT_GT(ring.reader.readable().size(), 0u);
        ring.reader.consume(ring.reader.readable().size());
      }
    }
    ring.writer.wait_for_room(false);
    while (traffic.read < traffic.written) {
      const FrameHeader* header = ring.reader.peek();
      ASSERT_TRUE(header);
      ASSERT_EQ(header->id, traffic.read);
      while (!ring.reader.readable().empty()) ring.reader.consume(ring.reader.readable().size());
      if (ring.reader.peek() && ring.reader.peek()->id == traffic.read) ring.reader.consume(0);
      ++traffic.read;
    }
    ASSERT_FALSE(ring.reader.has_news());
  }
  EXPECT_GT(waits, 100);
}

TEST(Ring, MemoryIsTakenManyPagesAtATime) {
  constexpr std::size_t kPage = 4096;
  const SharedFile file = SharedFile::create("ring-test", 64 * kPage);
  if (::madvise(file.data() + 32 * kPage, kPage, MADV_POPULATE_WRITE) != 0) GTEST_SKIP() << "an older kernel";
  RingWriter writer(RingMemory(file.data(), 32 * kPage));
  ASSERT_TRUE(writer.write_whole({FrameKind::Eager, {.group = 5, .op = OpKind::Send}, 0, 1}, nullptr));
  std::array<unsigned char, 16> resident{};  // each of 64 short frames
  ASSERT_EQ(::mincore(file.data(), resident.size() * kPage, resident.data()), 0);
  for (std::size_t page = 0; page < resident.size(); ++page) EXPECT_TRUE(resident[page] & 1) << "page " << page;
}

TEST(Ring, APayloadOfWhichNothingIsThereIsNoNews) {
  Ring ring;
  Traffic traffic{ring};
  while (traffic.write(8)) continue;
  traffic.take_one();
  const auto payload = Traffic::payload_of(traffic.written, 9'000);
  Outgoing frame = frame_of(payload, traffic.written);
  ASSERT_TRUE(ring.writer.write(frame)) << "its line";
  while (traffic.read < traffic.written) {
    ASSERT_TRUE(ring.reader.has_news());
    ASSERT_EQ(ring.reader.read(traffic.got.data(), ring.reader.peek()->nbytes), 8u);
    ++traffic.read;
  }
  ASSERT_TRUE(ring.reader.has_news()) << "the line";
  ASSERT_EQ(ring.reader.peek()->id, traffic.written);
  EXPECT_FALSE(ring.reader.has_news());
  ASSERT_TRUE(ring.writer.write(frame));
  EXPECT_TRUE(ring.reader.has_news());
}

TEST(Ring, WhatIsNoFrameIsAProtocolError) {
  Ring ring;
  const std::vector<std::byte> payload(8);
  Outgoing frame = frame_of(payload, 1);
  ring.writer.write(frame);
  ring.memory.line(0).dtype = 200;
  test::text_of(ErrorCode::Protocol, [&] { ring.reader.peek(); });
}

}  // namespace
}  // namespace tutti::comm
