#include <tutti/comm/base/error.h>
#include <tutti/comm/failure/waiter.h>
#include <tutti/comm/shared/board.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace tutti::comm {
namespace {

constexpr int kSpins = 100;  // looks before the clock is asked: two or three microseconds

// How many turns ahead lines are fetched in broadcasts, whose root runs ahead: those that will be written, so that they
// are this processor's by then, and the root's. Where ranks wait for each other to fetch only takes time; others' lines
// that are not written yet are left to their writers.
constexpr std::uint64_t kAhead = 4;

constexpr std::size_t kFetchedAtOnce = 8 * kLine;  // of a slot, between two looks

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e37'79b9'7f4a'7c15;  // multiplication by the golden ratio, and its high half folded in
  return hash ^ (hash >> 32);
}

}  // namespace

Board::Board(Neighbours& neighbours, Transport& transport, FailureMonitor& monitor)
    : neighbours_(neighbours),
      segment_(neighbours.segment()),
      transport_(transport),
      monitor_(monitor),
      ranks_(neighbours.size()),
      self_(neighbours.self()),
      has_processor_(!transport.oversubscribed()),
      spins_(has_processor_ ? kSpins : 0),
      others_(static_cast<std::size_t>(ranks_)),
      late_compute_here_(transport.computes_here) {}

void Board::free_slot() {
  const std::uint64_t needed = number_ - kTurns;
  std::uint64_t all = number_;
  for (int index = 0; index < ranks_; ++index) {
    if (index == self_) continue;
    const auto& line = segment_.state(index).finished;
    std::uint64_t& finished = others_[static_cast<std::size_t>(index)].finished;
    if (timed_load(index, line, finished) < needed) {
      const auto enough = [&] { return (finished = line.load(std::memory_order_acquire)) >= needed; };
      await_ready(enough, index, late_compute_here_);
    }
    all = std::min(all, finished);
  }
  all_finished_ = all;
}

/// Puts the places into this rank's line; returns the marks that go with them.
std::uint8_t Board::put(const Memory& memory) {
  Turn& turn = segment_.turn(self_, number_);
  std::uint8_t marks = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (!memory[i]) continue;
    marks |= static_cast<std::uint8_t>(Turn::kHasMemory << i);
    turn.memory[i] = *memory[i];
  }
  return marks;
}

void Board::note_messages(const Fingerprint& f) {
  history_ = mixed(mixed(history_, f.seq), static_cast<std::uint64_t>(f.root) << 32 | static_cast<std::uint64_t>(f.op));
}

void Board::announce(const Memory& memory) { publish(put(memory)); }

void Board::announce(const Memory& memory, const std::byte* readable, bool reads) {
  const std::uint8_t marks = put(memory);
  segment_.turn(self_, number_).memory[1] = reinterpret_cast<std::uintptr_t>(readable);
  publish(reads ? marks | Turn::kReads : marks);
}

/// The fingerprint and the digest, for others to compare with theirs.
void Board::put_fingerprint(Turn& turn) {
  const Fingerprint& f = operation_->fingerprint;
  turn.seq = f.seq;
  turn.count = f.count;
  turn.root = f.root;
  turn.op = static_cast<std::uint8_t>(f.op);
  turn.dtype = static_cast<std::uint8_t>(f.dtype);
  turn.reduce_op = static_cast<std::uint8_t>(f.reduce_op);
  const std::uint64_t kinds = static_cast<std::uint64_t>(f.root) << 32 | static_cast<std::uint64_t>(f.op) << 16 |
                              static_cast<std::uint64_t>(f.dtype) << 8 | static_cast<std::uint64_t>(f.reduce_op);
  history_ = mixed(mixed(mixed(history_, f.seq), f.count), kinds);
  turn.history = history_;
}

void Board::publish(std::uint8_t marks) {
  Turn& turn = segment_.turn(self_, number_);
  put_fingerprint(turn);
  turn.marks = streams_ ? marks | Turn::kStreamed : marks;
  turn.number.store(number_, std::memory_order_release);
  neighbours_.nudge_all();
  if (operation_->fingerprint.op == OpKind::Broadcast) __builtin_prefetch(&segment_.turn(self_, number_ + kAhead), 1);
  operation_->caller.is_announced();
}

/// True if something is left to fetch of the next turn's slot. Where ranks share processors a wait is another's time.
bool Board::fetch_ahead() {
  if (!has_processor_) return false;
  std::byte* const slot = segment_.slot(self_, number_ + 1);
  const std::size_t end = std::min(to_fetch_, fetched_ + kFetchedAtOnce);
  for (; fetched_ < end; fetched_ += kLine) __builtin_prefetch(slot + fetched_, 1);
  return fetched_ < to_fetch_;
}

const Turn& Board::await(int index) {
  const Turn& turn = segment_.turn(index, number_);
  if (index == self_) return turn;
  const auto announced = [&] { return turn.number.load(std::memory_order_acquire) == number_; };
  if (announced()) {
    if (operation_->fingerprint.op == OpKind::Broadcast) __builtin_prefetch(&segment_.turn(index, number_ + kAhead));
  } else {
    while (fetch_ahead() && !announced()) {
    }
    await_ready(announced, index, late_compute_here_);
  }
  if (turn.history != history_) compare(turn, index);
  return turn;
}

void Board::await_all() {
  for (int index = 0; index < ranks_; ++index)
    if (index != self_) await(index);
  all_finished_ = number_ - 1;  // who has announced this turn has finished the one before
}

void Board::tell_finished() {
  segment_.state(self_).finished.store(number_, std::memory_order_release);
  neighbours_.nudge_all();
}

void Board::advance(Progress progress, std::uint64_t to) {
  (segment_.state(self_).*progress).store(to, std::memory_order_release);
  neighbours_.nudge_all();
}

std::uint64_t Board::timed_load(int index, const std::atomic<std::uint64_t>& line, std::uint64_t& seen) {
  Distance& distance = others_[static_cast<std::size_t>(index)].distance;
  far_ -= distance.is_far() ? 1 : 0;
  const std::uint64_t value = distance.load(line, seen);
  far_ += distance.is_far() ? 1 : 0;
  return value;
}

bool Board::choose_streams() {
  if (far_ == 0 || 2 * far_ < ranks_ - 1) return false;
  if (others_.front().distance.decides()) return true;
  bool slow = showing_.is_slow();
  for (int index = 0; index < ranks_ && !slow; ++index)  // this rank has told its own, too
    slow = segment_.state(index).copies_slowly.load(std::memory_order_relaxed);
  return choice_.choose(slow);
}

/// To the writers.
void Board::tell_speed() {
  std::atomic<bool>& told = segment_.state(self_).copies_slowly;
  if (told.load(std::memory_order_relaxed) != taking_.is_slow())
    told.store(taking_.is_slow(), std::memory_order_relaxed);
}

void Board::look(int index) {
  std::uint64_t seen = number_ > kTurns ? number_ - kTurns : 0;  // what the line held before this turn
  timed_load(index, segment_.turn(index, number_).number, seen);
}

void Board::await(Progress progress, int index, std::uint64_t at_least) {
  const auto& theirs = segment_.state(index).*progress;
  Other& other = others_[static_cast<std::size_t>(index)];
  if (progress == &RankState::staged && timed_load(index, theirs, other.staged) >= at_least) return;
  if (progress == &RankState::taken && timed_load(index, theirs, other.taken) >= at_least) return;
  const auto ready = [&] { return theirs.load(std::memory_order_acquire) >= at_least; };
  await_ready(ready, index, present_compute_here_);
}

void Board::finish_stages(std::uint64_t position) {
  position_ = position;
  for (const Progress progress : {&RankState::staged, &RankState::reduced, &RankState::taken})
    (segment_.state(self_).*progress).store(position_, std::memory_order_release);
  neighbours_.nudge_all();
}

void Board::explain_giving_up(int index) {
  const int rank = neighbours_.rank_of(index);
  const std::string text = "lost " + transport_.describe(rank) + ": its call has failed";
  monitor_.explain_loss(Error(ErrorCode::PeerLost, text), {&rank, 1});
}

void Board::wait_until(const std::function<bool()>& ready, int index, ComputesHere& computes_here) {
  const int peer = neighbours_.rank_of(index);
  const std::span<const int> awaited(&peer, 1);
  Waiter waiter(transport_, monitor_, operation_->fingerprint, operation_->caller.deadline(), operation_->report_after,
                &computes_here);
  while (!ready()) {
    if (neighbours_.gone(index) || neighbours_.gone(self_)) {
      if (ready()) return;  // what it did before it went counts
      const std::string why =
          neighbours_.gone(self_) ? "this rank has closed its connections" : neighbours_.reason(index);
      monitor_.explain_loss(Error(ErrorCode::PeerLost, "lost " + transport_.describe(peer) + ": " + why), awaited);
    }
    if (waiter.should_block())
      waiter.block([&](std::chrono::milliseconds timeout) { neighbours_.sleep(ready, {index}, timeout); }, awaited);
  }
}

}  // namespace tutti::comm
