#include <tutti/comm/base/copy.h>
#include <tutti/comm/transport/shm/ring.h>

#include <algorithm>

namespace tutti::comm {
namespace {

// From this length on a payload is long.
constexpr std::size_t kStreamedBytes = 4 * 1024;

constexpr std::size_t kLongestPiece = 64 * 1024;
constexpr std::size_t kPieceCosts = 4 * 1024;  // its overhead, in bytes that are copied meanwhile

/// With the line in front of it, and the one behind it.
bool fits_whole(std::uint64_t nbytes, std::size_t space) {
  if (FrameLine::holds(nbytes)) return space >= 2 * kLine;
  return nbytes <= kRingPiece && whole_lines(nbytes) + 2 * kLine <= space;
}

/// A piece has a fixed cost, and the last one is read when all are written: the best size is the root of their product.
std::size_t piece_of(std::uint64_t nbytes, std::size_t capacity) {
  std::size_t piece = kRingPiece;
  for (std::size_t next = 2 * piece; next <= kLongestPiece && next <= capacity / 4; next *= 2)
    if (next * next / kPieceCosts <= nbytes) piece = next;
  return piece;
}

}  // namespace

std::size_t RingWriter::room(std::size_t needed) {
  const auto left = [&] { return static_cast<std::size_t>(taken_ + ring_.capacity - at_.position()); };
  if (left() < needed) taken_ = ring_.control->taken.load(std::memory_order_acquire);
  return left();
}

/// The reader must take so much that there is room for a line and the next one.
void RingWriter::wait_for_room(bool waits) {
  const std::uint64_t needed = at_.position() + 2 * kLine;
  const std::uint64_t missing = needed - std::min(needed, taken_ + ring_.capacity);
  waits_for_.store(waits ? taken_ + missing + 1 : 0, std::memory_order_relaxed);
}

bool RingWriter::can_go_on() const {
  const std::uint64_t waits_for = waits_for_.load(std::memory_order_relaxed);
  return waits_for > 0 && ring_.control->taken.load(std::memory_order_acquire) + 1 >= waits_for;
}

void RingWriter::copy_in(const std::byte* from, std::size_t bytes) {
  const std::size_t first = std::min(bytes, ring_.capacity - at_.offset());
  const bool streams = streams_ && bytes >= kStreamedBytes;
  copy_out(ring_.lines + at_.offset(), from, first, streams);
  copy_out(ring_.lines, from + first, bytes - first, streams);
}

void RingWriter::clear_next_stamp() {
  reinterpret_cast<FrameLine*>(ring_.lines + at_.offset())->stamp.store(0, std::memory_order_relaxed);
}

bool RingWriter::start(Outgoing& frame) {
  const std::size_t space = room(std::min(whole_lines(frame.header.nbytes), kRingPiece) + 2 * kLine);
  if (space < 2 * kLine) return false;
  const bool whole = fits_whole(frame.header.nbytes, space);
  put(frame.header, frame.payload, whole);
  frame.written_ = frame.lead() + (whole ? frame.header.nbytes : 0);
  return true;
}

bool RingWriter::write_whole(const FrameHeader& header, const void* payload, bool streams) {
  streams_ = streams;
  if (!fits_whole(header.nbytes, room(whole_lines(header.nbytes) + 2 * kLine))) return false;
  put(header, payload, true);
  return true;
}

/// There is room for the line, the next one and, if the frame is to be `whole`, the payload in between. The line is
/// written last and in one go: its reader polls it, and would take it away in between. And soon after the payload: time
/// spent between the two shows many times over in the latency of the message.
void RingWriter::put(const FrameHeader& header, const void* payload, bool whole) {
  auto* line = reinterpret_cast<FrameLine*>(ring_.lines + at_.offset());
  const std::uint64_t stamp = at_.position() + 1;
  const auto* bytes = static_cast<const std::byte*>(payload);
  at_.advance(kLine);
  if (whole && !FrameLine::holds(header.nbytes)) {
    copy_in(bytes, header.nbytes);
    at_.advance(whole_lines(header.nbytes));
  }
  if (whole) clear_next_stamp();
  line->kind = static_cast<std::uint8_t>(header.kind);
  line->op = static_cast<std::uint8_t>(header.fingerprint.op);
  line->dtype = static_cast<std::uint8_t>(header.fingerprint.dtype);
  line->reduce_op_and_marks =
      static_cast<std::uint8_t>((static_cast<unsigned>(header.fingerprint.reduce_op) & FrameLine::kReduceOp) |
                                (whole ? FrameLine::kComplete : 0u));
  line->root = header.fingerprint.root;
  line->count = header.fingerprint.count;
  line->nbytes = header.nbytes;
  line->id = header.id;
  line->seq = header.fingerprint.seq;
  line->user_op = header.fingerprint.user_op;
  if (header.nbytes > 0 && FrameLine::holds(header.nbytes)) copy_short(line->inlined.data(), bytes, header.nbytes);
  line->stamp.store(stamp, std::memory_order_release);
}

bool RingWriter::write(Outgoing& frame, bool streams) {
  streams_ = streams;
  bool wrote = false;
  if (frame.written_ == 0) {
    if (!start(frame)) return false;
    wrote = true;
  }
  const std::size_t longest = piece_of(frame.header.nbytes, ring_.capacity);
  while (!frame.done()) {
    const std::uint64_t done = frame.written_ - frame.lead();
    const std::uint64_t left = frame.header.nbytes - done;
    const std::size_t free = room(kRingPiece + 2 * kLine);
    const std::size_t space = free > kLine ? free - kLine : 0;  // the line behind it stays free for the next stamp
    const std::size_t piece = std::min<std::uint64_t>({left, longest, space});
    if (piece == 0 || (piece < left && piece % kLine != 0)) return wrote;
    copy_in(static_cast<const std::byte*>(frame.payload) + done, piece);
    at_.advance(whole_lines(piece));
    frame.written_ += piece;
    if (frame.done()) clear_next_stamp();
    ring_.control->written.store(at_.position(), std::memory_order_release);
    wrote = true;
  }
  return wrote;
}

}  // namespace tutti::comm
