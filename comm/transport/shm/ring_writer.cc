#include <tutti/comm/base/copy.h>
#include <tutti/comm/transport/shm/ring.h>

#include <algorithm>
#include <utility>

namespace tutti::comm {
namespace {

// So much of a payload is written past the caches, if its reader is further away than memory.
constexpr std::size_t kStreamedBytes = 4 * 1024;

constexpr unsigned kLookEvery = 16;  // such payloads

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

void RingWriter::look() { set_taken(std::max(taken_, reader_.load(ring_.control->taken, looked_at_))); }

/// And so how far it may be written: as long as there is something left of a lap that ended early, no further than to
/// that.
void RingWriter::set_taken(std::uint64_t taken) {
  taken_ = taken;
  room_ends_ = taken_ + (taken_ < lap_began_ ? last_lap_ended_ : ring_.capacity);
}

void RingWriter::was_answered(std::uint64_t taken) {
  answered_ = true;
  if (taken > taken_) set_taken(taken);
}

std::size_t RingWriter::room(std::size_t needed) {
  const auto left = [&] { return static_cast<std::size_t>(room_ends_ - at_.position()); };
  if (left() >= needed) return left();
  look();
  if (left() < needed && taken_ < lap_began_ && !std::exchange(lap_was_short_, true))
    lap_bytes_ = std::min(2 * lap_bytes_, ring_.capacity);
  return left();
}

/// So much has to be taken that there is room for a line and the next one. Who waits has left a line free, so that is
/// never more than what was left of the last lap.
void RingWriter::wait_for_room(bool waits) {
  const std::uint64_t needed = at_.position() + 2 * kLine;
  const std::uint64_t missing = needed - std::min(needed, room_ends_);
  waits_for_.store(waits ? taken_ + missing + 1 : 0, std::memory_order_relaxed);
}

bool RingWriter::can_go_on() const {
  const std::uint64_t waits_for = waits_for_.load(std::memory_order_relaxed);
  return waits_for > 0 && ring_.control->taken.load(std::memory_order_acquire) + 1 >= waits_for;
}

/// Whether the lap has come to its length with a whole frame of so many payload bytes, and there is room for another
/// one at its beginning.
bool RingWriter::is_last_of_lap(std::uint64_t nbytes) {
  const std::size_t frame = kLine + (FrameLine::holds(nbytes) ? 0 : whole_lines(nbytes));
  const std::size_t end = at_.offset() + frame;
  if (frame > kLine + kShortLap || end >= ring_.capacity) return false;
  if (end / lap_bytes_ == at_.offset() / lap_bytes_) return false;
  const auto has_room = [&] { return at_.offset() >= (at_.position() - taken_) + frame + kLine; };
  if (!has_room()) look();
  return has_room();
}

void RingWriter::begin_lap() {
  last_lap_ended_ = at_.offset();
  lap_began_ = at_.position();
  set_taken(taken_);
  lap_was_short_ = false;
  at_.begin_lap();
}

bool RingWriter::choose_streams(std::uint64_t nbytes) {
  if (nbytes < kStreamedBytes) return false;
  // Writers whose frames are answered never have to look; but the time that it takes tells the distance.
  if (++long_frames_ % kLookEvery == 0) look();
  if (!reader_.is_far()) return false;
  if (reader_.decides()) return true;
  return choice_.choose(speed_.is_slow() || ring_.control->reads_slowly.load(std::memory_order_relaxed));
}

void RingWriter::copy_in(const std::byte* from, std::size_t bytes) {
  const std::size_t first = std::min(bytes, ring_.capacity - at_.offset());
  const bool streams = streams_ && bytes >= kStreamedBytes;
  const auto copy = [&] {
    copy_out(ring_.lines + at_.offset(), from, first, streams);
    copy_out(ring_.lines, from + first, bytes - first, streams);
  };
  const bool is_timed = !streams && at_.has_touched(bytes);  // not what gets its memory now
  is_timed ? fetch_.time(bytes, [&] { speed_.time(bytes, copy); }) : copy();
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

bool RingWriter::write_whole(const FrameHeader& header, const void* payload) {
  if (!fits_whole(header.nbytes, room(whole_lines(header.nbytes) + 2 * kLine))) return false;
  put(header, payload, true);
  return true;
}

/// There is room for the line, the next one and, if the frame is to be `whole`, the payload in between. The line is
/// written last and in one go: its reader looks at it all the time, and would take it away in between. And soon after
/// the payload: what is computed between the two is seen in the time of the message many times over.
void RingWriter::put(const FrameHeader& header, const void* payload, bool whole) {
  auto* line = reinterpret_cast<FrameLine*>(ring_.lines + at_.offset());
  const std::uint64_t stamp = at_.position() + 1;
  const auto* bytes = static_cast<const std::byte*>(payload);
  const bool ends_lap = whole && std::exchange(answered_, false) && is_last_of_lap(header.nbytes);
  streams_ = choose_streams(header.nbytes);
  at_.advance(kLine);
  if (whole && !FrameLine::holds(header.nbytes)) {
    copy_in(bytes, header.nbytes);
    at_.advance(whole_lines(header.nbytes));
  }
  if (ends_lap) begin_lap();
  if (whole) clear_next_stamp();
  line->kind = static_cast<std::uint8_t>(header.kind);
  line->op = static_cast<std::uint8_t>(header.fingerprint.op);
  line->dtype = static_cast<std::uint8_t>(header.fingerprint.dtype);
  line->reduce_op_and_marks =
      static_cast<std::uint8_t>((static_cast<unsigned>(header.fingerprint.reduce_op) & FrameLine::kReduceOp) |
                                (whole ? FrameLine::kComplete : 0u) | (streams_ ? FrameLine::kStreamed : 0u) |
                                (ends_lap ? FrameLine::kEndsLap : 0u));
  line->root = header.fingerprint.root;
  line->count = header.fingerprint.count;
  line->nbytes_and_taken = header.nbytes | acknowledged_ / kLine << FrameLine::kLengthBits;
  line->id = header.id;
  line->seq = header.fingerprint.seq | header.memory;  // one of them is 0
  line->user_op = header.fingerprint.user_op;
  if (header.nbytes > 0 && FrameLine::holds(header.nbytes)) copy_short(line->inlined.data(), bytes, header.nbytes);
  line->stamp.store(stamp, std::memory_order_release);
  if (whole) plan_fetching(header.nbytes);
}

bool RingWriter::fetch_ahead() {
  const std::size_t end = std::min(to_fetch_, fetched_ + kFetchedAtOnce);
  for (; fetched_ < end; fetched_ += kLine) {
    const std::size_t place = at_.offset() + kLine + fetched_;  // the frame's line is watched by the reader: later
    __builtin_prefetch(ring_.lines + (place < ring_.capacity ? place : place - ring_.capacity), 1);
  }
  return fetched_ < to_fetch_;
}

/// Another frame like this one will need its payload's lines, and the one behind them.
void RingWriter::plan_fetching(std::uint64_t nbytes) {
  const std::uint64_t most = std::min<std::uint64_t>(kFetchedAhead, ring_.capacity / 4);
  const bool fetches_none = FrameLine::holds(nbytes) || streams_;
  to_fetch_ = kLine + (fetches_none ? 0 : fetch_.choose(whole_lines(std::min(nbytes, most))));
  fetched_ = 0;
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
    const std::size_t free = room(kRingPiece + 2 * kLine);
    const std::size_t space = free > kLine ? free - kLine : 0;  // the line behind it stays free for the next stamp
    const std::size_t piece = std::min<std::uint64_t>({left, longest, space});
    if (piece == 0 || (piece < left && piece % kLine != 0)) return wrote;
    copy_in(static_cast<const std::byte*>(frame.payload) + done, piece);
    at_.advance(whole_lines(piece));
    frame.written_ += piece;
    if (frame.done()) clear_next_stamp();
    ring_.control->written.store(at_.position(), std::memory_order_release);
    if (frame.done()) plan_fetching(frame.header.nbytes);
    wrote = true;
  }
  return wrote;
}

}  // namespace tutti::comm
