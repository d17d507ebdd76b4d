#include <tutti/comm/base/copy.h>
#include <tutti/comm/transport/shm/ring.h>

#include <algorithm>

namespace tutti::comm {
namespace {

// So much of a payload is written past the caches, if its reader is further away than memory.
constexpr std::size_t kStreamedBytes = 4 * 1024;

// Of the next payload's lines, while an answer is awaited: so many bytes, and so many between two looks for it.
constexpr std::uint64_t kFetchedAhead = 64 * 1024;
constexpr std::size_t kFetchedAtOnce = 512;

constexpr std::size_t kLongestPiece = 64 * 1024;
constexpr std::size_t kPieceCosts = 4 * 1024;  // beside its copies, in bytes that are copied meanwhile

/// With the line in front of it, and the one behind it.
bool fits_whole(std::uint64_t nbytes, std::size_t space) {
  if (FrameLine::holds(nbytes)) return space >= 2 * kLine;
  return nbytes <= kRingPiece && whole_lines(nbytes) + 2 * kLine <= space;
}

/// A piece costs its time, and the last one is read when all are written: the best is the root of their product. Twice
/// as long between ranks that are far from each other, half as long where copies are slow.
std::size_t piece_of(std::uint64_t nbytes, std::size_t capacity) {
  std::size_t piece = kRingPiece;
  for (std::size_t next = 2 * piece; next <= kLongestPiece && next <= capacity / 4; next *= 2)
    if (next * next / kPieceCosts <= nbytes) piece = next;
  return piece;
}

}  // namespace

std::size_t RingWriter::room() {
  const auto left = [&] { return ring_.capacity - static_cast<std::size_t>(position_ - taken_); };
  if (left() < kRingPiece + 2 * kLine) reader_.load(ring_.control->taken, taken_);
  return left();
}

bool RingWriter::can_go_on() const {
  const std::uint64_t waits_at = waits_at_.load(std::memory_order_relaxed);
  if (waits_at == 0) return false;
  return ring_.capacity - (waits_at - 1 - ring_.control->taken.load(std::memory_order_acquire)) >= 2 * kLine;
}

void RingWriter::advance(std::size_t bytes) {
  position_ += bytes;
  offset_ += bytes;
  if (offset_ >= ring_.capacity) offset_ -= ring_.capacity;
}

bool RingWriter::choose_streams(std::uint64_t nbytes) {
  if (nbytes < kStreamedBytes || !reader_.is_far()) return false;
  if (reader_.decides()) return true;
  return choice_.choose(speed_.is_slow() || ring_.control->reads_slowly.load(std::memory_order_relaxed));
}

void RingWriter::copy_in(const std::byte* from, std::size_t bytes) {
  const std::size_t first = std::min(bytes, ring_.capacity - offset_);
  const bool streams = streams_ && bytes >= kStreamedBytes;
  const auto copy = [&] {
    copy_out(ring_.lines + offset_, from, first, streams);
    copy_out(ring_.lines, from + first, bytes - first, streams);
  };
  const bool is_timed = !streams && position_ >= ring_.capacity;  // not while memory is touched for the first time
  is_timed ? fetch_.time(bytes, [&] { speed_.time(bytes, copy); }) : copy();
}

void RingWriter::clear_next_stamp() {
  reinterpret_cast<FrameLine*>(ring_.lines + offset_)->stamp.store(0, std::memory_order_relaxed);
}

bool RingWriter::start(Outgoing& frame) {
  const std::size_t space = room();
  if (space < 2 * kLine) return false;
  const bool whole = fits_whole(frame.header.nbytes, space);
  put(frame.header, frame.payload, whole);
  frame.written_ = frame.lead() + (whole ? frame.header.nbytes : 0);
  return true;
}

bool RingWriter::write_whole(const FrameHeader& header, const void* payload) {
  if (!fits_whole(header.nbytes, room())) return false;
  put(header, payload, true);
  return true;
}

/// There is room for the line, the next one and, if the frame is to be `whole`, the payload in between. The line is
/// written last and in one go: its reader looks at it all the time, and would take it away in between.
void RingWriter::put(const FrameHeader& header, const void* payload, bool whole) {
  auto* line = reinterpret_cast<FrameLine*>(ring_.lines + offset_);
  const std::uint64_t stamp = position_ + 1;
  const auto* bytes = static_cast<const std::byte*>(payload);
  streams_ = choose_streams(header.nbytes);
  advance(kLine);
  if (whole && !FrameLine::holds(header.nbytes)) {
    copy_in(bytes, header.nbytes);
    advance(whole_lines(header.nbytes));
  }
  if (whole) end_frame(header.nbytes);
  line->kind = static_cast<std::uint8_t>(header.kind);
  line->op = static_cast<std::uint8_t>(header.fingerprint.op);
  line->dtype = static_cast<std::uint8_t>(header.fingerprint.dtype);
  line->reduce_op_and_marks =
      static_cast<std::uint8_t>((static_cast<unsigned>(header.fingerprint.reduce_op) & FrameLine::kReduceOp) |
                                (whole ? FrameLine::kComplete : 0u) | (streams_ ? FrameLine::kStreamed : 0u));
  line->root = header.fingerprint.root;
  line->count = header.fingerprint.count;
  line->nbytes = header.nbytes;
  line->id = header.id;
  line->seq = header.fingerprint.seq | header.memory;  // one of them is 0
  line->user_op = header.fingerprint.user_op;
  if (header.nbytes > 0 && FrameLine::holds(header.nbytes)) copy_short(line->inlined.data(), bytes, header.nbytes);
  line->stamp.store(stamp, std::memory_order_release);
}

bool RingWriter::fetch_ahead() {
  const std::size_t end = std::min(to_fetch_, fetched_ + kFetchedAtOnce);
  for (; fetched_ < end; fetched_ += kLine) {
    const std::size_t place = offset_ + kLine + fetched_;  // the frame's line is watched by the reader: fetched late
    __builtin_prefetch(ring_.lines + (place < ring_.capacity ? place : place - ring_.capacity), 1);
  }
  return fetched_ < to_fetch_;
}

/// Another frame like this one will need its payload's lines, and the one behind them.
void RingWriter::end_frame(std::uint64_t nbytes) {
  const std::uint64_t most = std::min<std::uint64_t>(kFetchedAhead, ring_.capacity / 4);
  const bool fetches_none = FrameLine::holds(nbytes) || streams_;
  to_fetch_ = kLine + (fetches_none ? 0 : fetch_.choose(whole_lines(std::min(nbytes, most))));
  fetched_ = 0;
  clear_next_stamp();
}

bool RingWriter::write(Outgoing& frame) {
  bool wrote = false;
  if (frame.written_ == 0) {
    if (!start(frame)) return false;
    wrote = true;
  }
  const std::size_t longest = piece_of(frame.header.nbytes, ring_.capacity);
  while (!frame.done()) {
    const std::uint64_t done = frame.written_ - frame.lead();
    const std::uint64_t left = frame.header.nbytes - done;
    const std::size_t free = room();
    const std::size_t space = free > kLine ? free - kLine : 0;  // the line behind it stays free for the next stamp
    const std::size_t piece = std::min<std::uint64_t>({left, longest, space});
    if (piece == 0 || (piece < left && piece % kLine != 0)) return wrote;
    copy_in(static_cast<const std::byte*>(frame.payload) + done, piece);
    advance(whole_lines(piece));
    frame.written_ += piece;
    if (frame.done()) end_frame(frame.header.nbytes);
    ring_.control->written.store(position_, std::memory_order_release);
    wrote = true;
  }
  return wrote;
}

}  // namespace tutti::comm
