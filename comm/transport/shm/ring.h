// RingWriter, RingReader: a stream of frames from one rank to another in shared memory.
//
// One writer, one reader. A frame starts with a line of its own (FrameLine) that carries up to 12 bytes of payload;
// more follows in the next lines. The reader polls the line where the next frame will start, so a short message costs
// one transfer of a line from core to core. A long payload is read while it is still being written.
//
// The stamp of a line says which position of the stream it holds. Before a frame becomes visible, the stamp of the line
// behind it is cleared: what an earlier round has left there, payload included, is never taken for a frame. The writer
// reads the reader's position only when the room that it knows of is used up.
//
// Thread-safety: one thread at a time on each side. Idea: the ring of D. Lamport, "Proving the Correctness of
// Multiprocess Programs" (1977), with the flag in the slot.
#pragma once

#include <tutti/comm/base/processors.h>
#include <tutti/comm/transport/shm/segment.h>
#include <tutti/comm/transport/transport.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tutti::comm {

struct RingControl {
  alignas(2 * kLine) std::atomic<std::uint64_t> written;  // payload bytes up to this position are there
  alignas(2 * kLine) std::atomic<std::uint64_t> taken;    // everything before this position may be overwritten
};

struct alignas(kLine) FrameLine {
  std::atomic<std::uint64_t> stamp;  // position in the stream + 1; written last
  std::uint8_t kind;
  std::uint8_t op;
  std::uint8_t dtype;
  std::uint8_t reduce_op_and_marks;  // no bit-fields: setting one first fetches the line from its reader
  std::int32_t root;
  std::uint64_t count;
  std::uint64_t nbytes;
  std::uint64_t id;
  std::uint64_t seq;
  alignas(8) std::array<std::byte, 12> inlined;  // aligned for every element type
  std::uint32_t user_op;

  static constexpr std::uint8_t kComplete = 0x80;  // the whole payload was there when the frame became visible
  static constexpr std::uint8_t kReduceOp = 0x7f;

  /// Whether a payload travels in the line itself.
  static constexpr bool holds(std::uint64_t nbytes) { return nbytes <= sizeof inlined; }
};
static_assert(sizeof(FrameLine) == kLine);

// A long payload is handed over in pieces of this size and more, so that both sides copy at the same time.
inline constexpr std::size_t kRingPiece = 8 * 1024;

constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

/// Where a ring lies. `memory` is `size` bytes long, and zeroed when the ring is new. Positions count the bytes of the
/// stream; one lies in the memory at itself modulo the capacity, a power of two.
struct RingMemory {
  RingMemory(std::byte* memory, std::size_t size)
      : control(reinterpret_cast<RingControl*>(memory)),
        bytes(memory + sizeof(RingControl)),
        capacity(std::bit_floor(size - sizeof(RingControl))) {}

  std::size_t offset(std::uint64_t position) const { return position & (capacity - 1); }
  std::byte* at(std::uint64_t position) const { return bytes + offset(position); }
  FrameLine& line(std::uint64_t position) const { return *reinterpret_cast<FrameLine*>(at(position)); }

  RingControl* control;
  std::byte* bytes;
  std::size_t capacity;
};

class RingWriter {
 public:
  explicit RingWriter(RingMemory memory) : ring_(memory) {}

  /// Writes as much of the frame as there is room for; true if anything was written. frame.done() says when it is all
  /// there; until then the same frame is given again. `streams`: long payloads are written by non-temporal stores.
  bool write(Outgoing& frame, bool streams = false);

  /// Writes a short frame in one go, or nothing: false.
  bool write_whole(const FrameHeader& header, const void* payload, bool streams = false);

  /// Tells can_go_on() whether a frame waits for room.
  void wait_for_room(bool waits);

  /// Whether write() could go on with what waits for room. Any thread.
  bool can_go_on() const;

 private:
  std::size_t room(std::size_t needed);
  void populate();
  bool start(Outgoing& frame);
  void put(const FrameHeader& header, const void* payload, bool whole);
  void copy_in(const std::byte* from, std::size_t bytes);
  void clear_next_stamp() { ring_.line(at_).stamp.store(0, std::memory_order_relaxed); }

  RingMemory ring_;
  bool streams_ = false;
  std::uint64_t at_ = 0;                     // position of the next byte
  std::uint64_t taken_ = 0;                  // by the reader, as last seen
  std::size_t populated_ = 0;                // bytes from the ring's beginning whose pages are there
  std::atomic<std::uint64_t> waits_for_{0};  // as much to be taken, plus 1; 0: nothing waits
};

class RingReader {
 public:
  /// Payloads of `past_caches` bytes and more are written by non-temporal stores: they would not stay in the cache,
  /// where what is sent and received both ways is four such buffers.
  RingReader(RingMemory memory, std::uint64_t group, std::size_t past_caches = last_cache_bytes() / 4)
      : ring_(memory), group_(group), past_caches_(past_caches) {}

  /// The header of the frame at the head of the stream, or null. Throws Protocol if it holds impossible values.
  const FrameHeader* peek();

  /// Whether there is something that has not been read. Any thread.
  bool has_news() const;

  /// As Link::read.
  std::size_t read(void* into, std::size_t nbytes);

  /// Whether all that is left of the current payload is there.
  bool payload_is_here() { return available() == left_; }

  /// What of the current payload lies there in one piece; consume(n) says that n bytes of it are not needed any more.
  std::span<const std::byte> readable();
  void consume(std::size_t nbytes);

 private:
  std::size_t available();
  enum State : std::uint64_t { kBetweenFrames = 0, kAllThere = 1, kStillComing = 2 };
  void watch();
  void finish();

  RingMemory ring_;
  std::uint64_t group_;
  std::size_t past_caches_;
  std::uint64_t at_ = 0;        // position of the next unread byte; of the frame's line while its payload is inlined
  std::uint64_t released_ = 0;  // published to the writer
  std::uint64_t written_ = 0;   // as last seen
  std::optional<FrameHeader> current_;
  std::uint64_t left_ = 0;  // payload bytes not yet read
  bool streams_ = false;    // its bytes are copied out by non-temporal stores
  bool inlined_ = false;
  std::atomic<std::uint64_t> watched_{0};  // for has_news(): position, State in its two lowest bits
};

}  // namespace tutti::comm
