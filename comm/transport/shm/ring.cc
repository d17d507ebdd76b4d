#include <sys/mman.h>
#include <tutti/comm/base/copy.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/ring.h>

namespace tutti::comm {
namespace {

// From this length on a payload is long.
constexpr std::size_t kStreamedBytes = 4 * 1024;

constexpr std::size_t kPopulatedAtOnce = 64 * 1024;

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
  const auto left = [&] { return static_cast<std::size_t>(taken_ + ring_.capacity - at_); };
  if (left() < needed) taken_ = ring_.control->taken.load(std::memory_order_acquire);
  if (at_ + needed > populated_ && populated_ < ring_.capacity) populate();
  return left();
}

/// In the first round the first message in each page would take microseconds. So pages are taken many at a time, and
/// fewer than one short message in a hundred waits for memory. Kernels before 5.14 refuse, and take them one by one.
void RingWriter::populate() {
  const std::size_t bytes = std::min(kPopulatedAtOnce, ring_.capacity);
  ::madvise(ring_.bytes - sizeof(RingControl) + populated_, sizeof(RingControl) + bytes, MADV_POPULATE_WRITE);
  populated_ += bytes;
}

/// The reader must take so much that there is room for a line and the next one.
void RingWriter::wait_for_room(bool waits) {
  const std::uint64_t needed = at_ + 2 * kLine;
  const std::uint64_t missing = needed - std::min(needed, taken_ + ring_.capacity);
  waits_for_.store(waits ? taken_ + missing + 1 : 0, std::memory_order_relaxed);
}

bool RingWriter::can_go_on() const {
  const std::uint64_t waits_for = waits_for_.load(std::memory_order_relaxed);
  return waits_for > 0 && ring_.control->taken.load(std::memory_order_acquire) + 1 >= waits_for;
}

void RingWriter::copy_in(const std::byte* from, std::size_t bytes) {
  const std::size_t first = std::min(bytes, ring_.capacity - ring_.offset(at_));
  const bool streams = streams_ && bytes >= kStreamedBytes;
  copy_out(ring_.at(at_), from, first, streams);
  copy_out(ring_.bytes, from + first, bytes - first, streams);
}

bool RingWriter::start(Outgoing& frame) {
  const std::size_t space = room(std::min(whole_lines(frame.header.nbytes), kRingPiece) + 2 * kLine);
  if (space < 2 * kLine) return false;
  const bool whole = fits_whole(frame.header.nbytes, space);
  put(frame.header, frame.payload, whole);
  frame.written_ = kFrameHeaderBytes + (whole ? frame.header.nbytes : 0);
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
  FrameLine* const line = &ring_.line(at_);
  const std::uint64_t stamp = at_ + 1;
  const auto* bytes = static_cast<const std::byte*>(payload);
  at_ += kLine;
  if (whole && !FrameLine::holds(header.nbytes)) {
    copy_in(bytes, header.nbytes);
    at_ += whole_lines(header.nbytes);
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
    const std::uint64_t done = frame.written_ - kFrameHeaderBytes;
    const std::uint64_t left = frame.header.nbytes - done;
    const std::size_t free = room(kRingPiece + 2 * kLine);
    const std::size_t space = free > kLine ? free - kLine : 0;  // the line behind it stays free for the next stamp
    const std::size_t piece = std::min<std::uint64_t>({left, longest, space});
    if (piece == 0 || (piece < left && piece % kLine != 0)) return wrote;
    copy_in(static_cast<const std::byte*>(frame.payload) + done, piece);
    at_ += whole_lines(piece);
    frame.written_ += piece;
    if (frame.done()) clear_next_stamp();
    ring_.control->written.store(at_, std::memory_order_release);
    wrote = true;
  }
  return wrote;
}

const FrameHeader* RingReader::peek() {
  if (current_) return &*current_;
  const FrameLine& line = ring_.line(at_);
  if (line.stamp.load(std::memory_order_acquire) != at_ + 1) return nullptr;
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
    at_ += kLine;
    if (complete) written_ = at_ + whole_lines(left_);
  }
  watch();
  return &*current_;
}

// In the lowest bits of a position, which has no meaning there: what has been written ends with a line, and so do
// frames.
void RingReader::watch() {
  const State state = !current_ ? kBetweenFrames : inlined_ || written_ >= at_ + left_ ? kAllThere : kStillComing;
  watched_.store(at_ / kLine * kLine | state, std::memory_order_relaxed);
}

bool RingReader::has_news() const {
  const std::uint64_t watched = watched_.load(std::memory_order_relaxed);
  const std::uint64_t position = watched / kLine * kLine;
  switch (watched % kLine) {
    case kBetweenFrames:
      return ring_.line(position).stamp.load(std::memory_order_acquire) == position + 1;
    case kStillComing:
      return ring_.control->written.load(std::memory_order_acquire) / kLine * kLine > position;
    default:
      return true;
  }
}

std::size_t RingReader::available() {
  if (inlined_) return left_;
  if (written_ < at_ + left_) written_ = std::max(written_, ring_.control->written.load(std::memory_order_acquire));
  return written_ <= at_ ? 0 : std::min<std::uint64_t>(left_, written_ - at_);
}

std::span<const std::byte> RingReader::readable() {
  const std::size_t bytes = available();
  if (inlined_) return {ring_.line(at_).inlined.data() + current_->nbytes - left_, bytes};
  return {ring_.at(at_), std::min(bytes, ring_.capacity - ring_.offset(at_))};
}

void RingReader::consume(std::size_t nbytes) {
  left_ -= nbytes;
  if (!inlined_) at_ += nbytes;
  if (left_ == 0) finish();
  if (left_ == 0 || at_ - released_ >= std::min(kRingPiece, ring_.capacity / 4)) {
    released_ = at_ / kLine * kLine;
    ring_.control->taken.store(released_, std::memory_order_release);
  }
  watch();
}

void RingReader::finish() {
  at_ += inlined_ ? kLine : static_cast<std::size_t>(whole_lines(at_) - at_);
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
