#include <tutti/comm/base/copy.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/ring.h>

#include <algorithm>
#include <utility>

namespace tutti::comm {
namespace {

// Of what is watched: a State, a line of the ring, and a line of the stream.
constexpr unsigned kWatchedLineBits = 22;
constexpr unsigned kWatchedShift = 2 + kWatchedLineBits;
constexpr std::size_t kWatchedLines = (std::size_t{1} << kWatchedLineBits) - 1;

}  // namespace

const FrameHeader* RingReader::peek() {
  if (current_) return &*current_;
  const FrameLine& line = this->line();
  if (line.stamp.load(std::memory_order_acquire) != at_.position() + 1) return nullptr;
  const std::uint64_t nbytes = line.nbytes;
  const std::uint8_t reduce_op = line.reduce_op_and_marks & FrameLine::kReduceOp;
  if (line.kind < static_cast<std::uint8_t>(FrameKind::Collective) ||
      line.kind > static_cast<std::uint8_t>(FrameKind::Rendezvous) ||
      line.op > static_cast<std::uint8_t>(kLastOpKind) || line.dtype > static_cast<std::uint8_t>(kLastDType) ||
      reduce_op > static_cast<std::uint8_t>(kLastReduceOp) || nbytes > kMaxFrameBytes)
    throw Error(ErrorCode::Protocol, "the shared memory holds no frame where one should begin: was it overwritten?");
  current_ = {static_cast<FrameKind>(line.kind),
              {group_, line.seq, line.count, line.root, static_cast<OpKind>(line.op), static_cast<DType>(line.dtype),
               static_cast<ReduceOp>(reduce_op), line.user_op},
              nbytes,
              line.id};
  left_ = nbytes;
  streams_ = left_ >= past_caches_;
  inlined_ = FrameLine::holds(left_);
  if (!inlined_) {
    const bool complete = (line.reduce_op_and_marks & FrameLine::kComplete) != 0;
    at_.advance(kLine);
    if (complete) written_ = at_.position() + whole_lines(left_);
  }
  watch();
  return &*current_;
}

// Watched are lines: frames begin with one, and what has been written ends with one. Those of the stream are counted
// modulo 2^40: no reader is so far behind.
void RingReader::watch() {
  const State state = !current_                                        ? kBetweenFrames
                      : inlined_ || written_ >= at_.position() + left_ ? kAllThere
                                                                       : kStillComing;
  watched_.store((at_.position() / kLine) << kWatchedShift | (at_.offset() / kLine) << 2 | state,
                 std::memory_order_relaxed);
}

bool RingReader::has_news() const {
  const std::uint64_t watched = watched_.load(std::memory_order_relaxed);
  const auto lines_to = [&](std::uint64_t position) {  // in the upper bits: its sign tells whether it is passed
    const std::uint64_t to = position / kLine << kWatchedShift;
    return static_cast<std::int64_t>(to - (watched >> kWatchedShift << kWatchedShift));
  };
  switch (watched & 3) {
    case kBetweenFrames: {
      const std::size_t line = watched >> 2 & kWatchedLines;
      const std::uint64_t stamp =
          reinterpret_cast<const FrameLine*>(ring_.lines)[line].stamp.load(std::memory_order_acquire);
      return stamp > 0 && lines_to(stamp - 1) == 0;
    }
    case kStillComing:
      return lines_to(ring_.control->written.load(std::memory_order_acquire)) > 0;
    default:
      return true;
  }
}

std::size_t RingReader::available() {
  if (inlined_) return left_;
  if (written_ < at_.position() + left_)
    written_ = std::max(written_, ring_.control->written.load(std::memory_order_acquire));
  return written_ <= at_.position() ? 0 : std::min<std::uint64_t>(left_, written_ - at_.position());
}

std::span<const std::byte> RingReader::readable() {
  const std::size_t bytes = available();
  if (inlined_) return {line().inlined.data() + current_->nbytes - left_, bytes};
  return {ring_.lines + at_.offset(), std::min(bytes, ring_.capacity - at_.offset())};
}

void RingReader::consume(std::size_t nbytes) {
  left_ -= nbytes;
  if (!inlined_) at_.advance(nbytes);
  if (left_ == 0) finish();
  if (left_ == 0 || at_.position() - released_ >= std::min(kRingPiece, ring_.capacity / 4)) {
    released_ = at_.position() / kLine * kLine;
    ring_.control->taken.store(released_, std::memory_order_release);
  }
  watch();
}

void RingReader::finish() {
  at_.advance(inlined_ ? kLine : static_cast<std::size_t>(whole_lines(at_.position()) - at_.position()));
  current_.reset();
}

std::size_t RingReader::read(void* into, std::size_t nbytes) {
  auto* target = static_cast<std::byte*>(into);
  std::size_t got = 0;
  if (current_ && left_ == 0) consume(0);  // a frame without payload
  while (got < nbytes && current_) {
    const auto part = readable();
    const std::size_t n = std::min(part.size(), nbytes - got);
    if (n == 0) break;
    copy_out(target + got, part.data(), n, streams_);
    got += n;
    consume(n);
  }
  return got;
}

}  // namespace tutti::comm
