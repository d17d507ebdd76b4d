#include <tutti/comm/base/error.h>
#include <tutti/comm/shared/announcements.h>

#include <algorithm>
#include <string>

namespace tutti::comm {
namespace {

// Polls before the clock is read: two or three microseconds. None where ranks share CPUs, and would delay each other.
constexpr int kSpins = 100;

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e37'79b9'7f4a'7c15;  // times the golden ratio, its high half folded in
  return hash ^ (hash >> 32);
}

Fingerprint fingerprint_of(const Turn& turn, std::uint64_t group) {
  return {group,
          turn.seq,
          turn.count,
          turn.root,
          static_cast<OpKind>(turn.op),
          static_cast<DType>(turn.dtype),
          static_cast<ReduceOp>(turn.reduce_op)};
}

}  // namespace

Announcements::Announcements(Neighbours& neighbours, Transport& transport, FailureMonitor& monitor)
    : neighbours_(neighbours),
      segment_(neighbours.segment()),
      transport_(transport),
      monitor_(monitor),
      ranks_(neighbours.size()),
      self_(neighbours.self()),
      spins_(transport.oversubscribed() ? 0 : kSpins),
      finished_(static_cast<std::size_t>(ranks_)) {}

void Announcements::free_slot() {
  const std::uint64_t needed = number_ - kTurns;
  std::uint64_t all = number_;
  for (int index = 0; index < ranks_; ++index) {
    if (index == self_) continue;
    const auto& line = segment_.state(index).finished;
    std::uint64_t& finished = finished_[static_cast<std::size_t>(index)];
    const auto enough = [&] { return (finished = line.load(std::memory_order_acquire)) >= needed; };
    if (!enough()) await_ready(enough, index);
    all = std::min(all, finished);
  }
  all_finished_ = all;
}

/// Not once for all: of a sub-group the others may come later.
bool Announcements::most_are_far() const {
  int far = 0;
  for (int index = 0; index < ranks_; ++index) far += index != self_ && neighbours_.is_far(index) ? 1 : 0;
  return far > 0 && 2 * far >= ranks_ - 1;
}

void Announcements::note_messages(const Fingerprint& f) {
  history_ = mixed(mixed(history_, f.seq), static_cast<std::uint64_t>(f.root) << 32 | static_cast<std::uint64_t>(f.op));
}

void Announcements::announce(const Memory& memory) {
  std::uint8_t marks = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (!memory[i]) continue;
    marks |= static_cast<std::uint8_t>(Turn::kHasMemory << i);
    segment_.turn(self_, number_).memory[i] = *memory[i];
  }
  publish(marks);
}

/// The fingerprint and the digest, for others to compare with theirs.
void Announcements::put_fingerprint(Turn& turn) {
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

void Announcements::publish(std::uint8_t marks) {
  Turn& turn = segment_.turn(self_, number_);
  put_fingerprint(turn);
  turn.marks = streams_ ? marks | Turn::kStreamed : marks;
  turn.number.store(number_, std::memory_order_release);
  neighbours_.nudge_all();
  operation_->caller.is_announced();
}

const Turn& Announcements::await(int index) {
  const Turn& turn = segment_.turn(index, number_);
  if (index == self_) return turn;
  const auto announced = [&] { return turn.number.load(std::memory_order_acquire) == number_; };
  if (!announced()) await_ready(announced, index);
  if (turn.history != history_) compare(turn, index);
  return turn;
}

void Announcements::await_all() {
  for (int index = 0; index < ranks_; ++index)
    if (index != self_) await(index);
  all_finished_ = number_ - 1;  // a rank that announced this turn has finished the one before
}

void Announcements::tell_finished() {
  segment_.state(self_).finished.store(number_, std::memory_order_release);
  neighbours_.nudge_all();
}

void Announcements::explain_giving_up(int index) {
  const int rank = neighbours_.rank_of(index);
  const std::string text = "lost " + transport_.describe(rank) + ": its call has failed";
  monitor_.explain_loss(Error(ErrorCode::PeerLost, text), {&rank, 1});
}

void Announcements::wait_until(const std::function<bool()>& ready, int index) {
  const int peer = neighbours_.rank_of(index);
  const std::span<const int> awaited(&peer, 1);
  Waiter waiter(transport_, monitor_, operation_->fingerprint, operation_->caller.deadline(), operation_->report_after);
  while (!ready()) {
    if (neighbours_.gone(index) || neighbours_.gone(self_)) {
      if (ready()) return;  // what it did before it left counts
      const std::string why =
          neighbours_.gone(self_) ? "this rank has closed its connections" : neighbours_.reason(index);
      monitor_.explain_loss(Error(ErrorCode::PeerLost, "lost ", transport_.describe(peer), ": ", why), awaited);
    }
    if (waiter.should_block())
      waiter.block([&](std::chrono::milliseconds timeout) { neighbours_.sleep(ready, {index}, timeout); }, awaited);
  }
}

/// The digests differ: somewhere the two ranks have called different operations. Reports the oldest difference.
void Announcements::compare(const Turn& theirs, int index) const {
  const std::uint64_t group = operation_->fingerprint.group;
  Fingerprint their_call = fingerprint_of(theirs, group);
  Fingerprint our_call = operation_->fingerprint;
  for (std::uint64_t number = number_ > kTurns ? number_ - kTurns + 1 : 1; number < number_; ++number) {
    const Turn& then = segment_.turn(index, number);
    const Turn& ours = segment_.turn(self_, number);
    if (then.number.load(std::memory_order_acquire) != number || then.history == ours.history) continue;
    their_call = fingerprint_of(then, group);
    our_call = fingerprint_of(ours, group);
    break;
  }
  for (std::uint64_t number = number_ > kTurns ? number_ - kTurns + 1 : 1; number < number_; ++number) {
    const Turn& ours = segment_.turn(self_, number);  // what this rank called under the number of their call
    if (ours.seq == their_call.seq) our_call = fingerprint_of(ours, group);
  }
  const std::string before =
      our_call == their_call ? ", but after an operation that had another name or root there than here" : "";
  throw Error(ErrorCode::Mismatch, "rank ", transport_.rank(), " called ", our_call.to_string(), ", but ",
              monitor_.describe(neighbours_.rank_of(index)), " called ", their_call.to_string(), before);
}

}  // namespace tutti::comm
