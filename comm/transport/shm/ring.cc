#include <tutti/comm/base/copy.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/ring.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace tutti::comm {
namespace {

// A long payload is handed over in pieces of this size, so that both sides copy at the same time.
constexpr std::size_t kPiece = 8 * 1024;

// So much of a payload is written past the caches, if its reader is further away than memory.
constexpr std::size_t kStreamedBytes = 4 * 1024;

// Of the next payload's lines, while an answer is awaited: so many bytes, and so many between two looks for it.
constexpr std::uint64_t kFetchedAhead = 64 * 1024;
constexpr std::size_t kFetchedAtOnce = 512;

std::size_t whole_lines(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

bool fits_inline(std::uint64_t nbytes) { return nbytes <= sizeof FrameLine::inlined; }

/// With the line in front of it, and the one behind it.
bool fits_whole(std::uint64_t nbytes, std::size_t space) {
  if (fits_inline(nbytes)) return space >= 2 * kLine;
  return nbytes <= kPiece && whole_lines(nbytes) + 2 * kLine <= space;
}

}  // namespace

std::size_t RingWriter::room() {
  const auto left = [&] { return ring_.capacity - static_cast<std::size_t>(position_ - taken_); };
  if (left() < kPiece + 2 * kLine) reader_.load(ring_.control->taken, taken_);
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
  is_timed ? speed_.time(bytes, copy) : copy();
}

void RingWriter::clear_next_stamp() {
  reinterpret_cast<FrameLine*>(ring_.lines + offset_)->stamp.store(0, std::memory_order_relaxed);
}

bool RingWriter::start(Outgoing& frame) {
  const std::size_t space = room();
  if (space < 2 * kLine) return false;
  const bool whole = fits_whole(frame.header.nbytes, space);
  put(frame.header, frame.payload, whole);
  frame.written_ = kFrameHeaderBytes + (whole ? frame.header.nbytes : 0);
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
  if (whole && !fits_inline(header.nbytes)) {
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
  line->seq = header.fingerprint.seq;
  line->user_op = header.fingerprint.user_op;
  if (header.nbytes > 0 && fits_inline(header.nbytes)) copy_short(line->inlined.data(), bytes, header.nbytes);
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
  to_fetch_ = kLine + (fits_inline(nbytes) || streams_ ? 0 : whole_lines(std::min(nbytes, most)));
  fetched_ = 0;
  clear_next_stamp();
}

bool RingWriter::write(Outgoing& frame) {
  bool wrote = false;
  if (frame.written_ == 0) {
    if (!start(frame)) return false;
    wrote = true;
  }
  while (!frame.done()) {
    const std::uint64_t done = frame.written_ - kFrameHeaderBytes;
    const std::uint64_t left = frame.header.nbytes - done;
    const std::size_t free = room();
    const std::size_t space = free > kLine ? free - kLine : 0;  // the line behind it stays free for the next stamp
    const std::size_t piece = std::min<std::uint64_t>({left, kPiece, space});
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

const FrameHeader* RingReader::peek() {
  if (current_) return &*current_;
  const FrameLine& line = this->line();
  if (line.stamp.load(std::memory_order_acquire) != position_ + 1) return nullptr;
  const std::uint8_t reduce_op = line.reduce_op_and_marks & FrameLine::kReduceOp;
  if (line.kind < static_cast<std::uint8_t>(FrameKind::Collective) ||
      line.kind > static_cast<std::uint8_t>(FrameKind::Rendezvous) ||
      line.op > static_cast<std::uint8_t>(kLastOpKind) || line.dtype > static_cast<std::uint8_t>(kLastDType) ||
      reduce_op > static_cast<std::uint8_t>(kLastReduceOp) || line.nbytes > kMaxFrameBytes)
    throw Error(ErrorCode::Protocol, "the shared memory holds no frame where one should begin: was it overwritten?");
  current_ = {static_cast<FrameKind>(line.kind),
              {group_, line.seq, line.count, line.root, static_cast<OpKind>(line.op), static_cast<DType>(line.dtype),
               static_cast<ReduceOp>(reduce_op), line.user_op},
              line.nbytes,
              line.id};
  left_ = line.nbytes;
  inlined_ = fits_inline(left_);
  if (!inlined_) {
    const bool complete = (line.reduce_op_and_marks & FrameLine::kComplete) != 0;
    streamed_ = (line.reduce_op_and_marks & FrameLine::kStreamed) != 0;
    advance(kLine);
    if (complete) written_ = position_ + whole_lines(left_);
  }
  watch();
  return &*current_;
}

void RingReader::watch() {
  const State state = !current_ ? kBetweenFrames : inlined_ || written_ >= position_ + left_ ? kAllThere : kStillComing;
  watched_.store(position_ << 2 | state, std::memory_order_relaxed);
}

bool RingReader::has_news() const {
  const std::uint64_t watched = watched_.load(std::memory_order_relaxed);
  const std::uint64_t position = watched >> 2;
  switch (watched & 3) {
    case kBetweenFrames:
      return reinterpret_cast<const FrameLine*>(ring_.lines + position % ring_.capacity)
                 ->stamp.load(std::memory_order_acquire) == position + 1;
    case kStillComing:
      return ring_.control->written.load(std::memory_order_acquire) > position;
    default:
      return true;
  }
}

std::size_t RingReader::available() {
  if (inlined_) return left_;
  if (written_ < position_ + left_)
    written_ = std::max(written_, ring_.control->written.load(std::memory_order_acquire));
  return written_ <= position_ ? 0 : std::min<std::uint64_t>(left_, written_ - position_);
}

std::span<const std::byte> RingReader::readable() {
  const std::size_t bytes = available();
  if (inlined_) return {line().inlined.data() + current_->nbytes - left_, bytes};
  return {ring_.lines + offset_, std::min(bytes, ring_.capacity - offset_)};
}

void RingReader::consume(std::size_t nbytes) {
  left_ -= nbytes;
  if (!inlined_) advance(nbytes);
  if (left_ == 0) finish();
  if (left_ == 0 || position_ - released_ >= std::min(kPiece, ring_.capacity / 4)) {
    released_ = position_ / kLine * kLine;
    ring_.control->taken.store(released_, std::memory_order_release);
  }
  watch();
}

void RingReader::finish() {
  advance(inlined_ ? kLine : static_cast<std::size_t>(whole_lines(position_) - position_));
  current_.reset();
}

void RingReader::copy_out_of_ring(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto copy = [&] { copy_short(to, from, bytes); };
  if (bytes < CopySpeed::kTimedBytes || streamed_ || position_ < ring_.capacity) return copy();
  const bool was_slow = speed_.is_slow();
  speed_.time(bytes, copy);
  if (speed_.is_slow() != was_slow) ring_.control->reads_slowly.store(!was_slow, std::memory_order_relaxed);
}

std::size_t RingReader::read(void* into, std::size_t nbytes) {
  auto* target = static_cast<std::byte*>(into);
  std::size_t got = 0;
  if (current_ && left_ == 0) consume(0);  // a frame without payload
  while (got < nbytes && current_) {
    const auto part = readable();
    const std::size_t n = std::min(part.size(), nbytes - got);
    if (n == 0) break;
    copy_out_of_ring(target + got, part.data(), n);
    got += n;
    consume(n);
  }
  return got;
}

void RingReader::advance(std::size_t bytes) {
  position_ += bytes;
  offset_ += bytes;
  if (offset_ >= ring_.capacity) offset_ -= ring_.capacity;
}

}  // namespace tutti::comm
