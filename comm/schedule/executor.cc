#include <tutti/comm/reduce/reduce.h>
#include <tutti/comm/schedule/executor.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

namespace tutti::comm {
namespace {

constexpr std::size_t kBounceBytes = 128 * 1024;

}  // namespace

Plan::Plan(Schedule schedule) : algorithm(schedule.algorithm), scratch_count(schedule.scratch_count) {
  // Messages to (or from) one peer keep their order: each send is posted after the one before, each receive begins when
  // the one before is complete.
  std::map<std::pair<bool, int>, std::uint32_t> last;  // (is send, peer) -> latest step
  for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) {
    PlanStep& current = steps.emplace_back();
    current.step = std::move(schedule.steps[i]);
    for (std::uint32_t earlier : current.step.after) {
      steps[earlier].on_complete.push_back(i);
      ++current.waits_for;
    }
    const Step::Kind kind = current.step.kind;
    if (kind == Step::Kind::Copy || kind == Step::Kind::Reduce) continue;
    const bool is_send = kind == Step::Kind::Send;
    const auto [it, first] = last.try_emplace({is_send, current.step.peer}, i);
    if (first) continue;
    PlanStep& previous = steps[it->second];
    (is_send ? previous.on_start : previous.on_complete).push_back(i);
    current.ordinal = previous.ordinal + 1;
    ++current.waits_for;
    it->second = i;
  }
}

Executor::Executor(Transport& transport, FailureMonitor& monitor)
    : transport_(transport), monitor_(monitor), flushed_in_(static_cast<std::size_t>(transport.world_size())) {}

void Executor::run(const Plan& plan, const Operation& operation) {
  plan_ = &plan;
  operation_ = &operation;
  element_bytes_ = size_of(operation.fingerprint.dtype);
  history_[operation.fingerprint.seq % history_.size()] = operation.fingerprint;
  completed_ = 0;
  const std::size_t count = plan.steps.size();
  waits_for_.resize(count);
  if (outgoing_.size() < count) outgoing_.resize(count);
  scratch_.resize(std::max(scratch_.size(), plan.scratch_count * element_bytes_));
  // Input is only ever read; the cast lets one function serve sources and targets.
  auto* const input = static_cast<std::byte*>(const_cast<void*>(operation.input));
  memory_ = {input, static_cast<std::byte*>(operation.output), scratch_.data()};
  ready_.clear();
  active_sends_.clear();
  active_receives_.clear();
  for (std::size_t i = count; i-- > 0;) {
    waits_for_[i] = plan.steps[i].waits_for;
    if (waits_for_[i] == 0) ready_.push_back(static_cast<std::uint32_t>(i));
  }
  std::optional<Waiter> waiter;  // not made, and no clock read, while all that is needed is there
  while (completed_ < count) {
    while (!ready_.empty()) {
      const std::uint32_t index = ready_.back();
      ready_.pop_back();
      start(index);
    }
    const bool sent = advance_sends();
    const bool received = advance_receives();
    if (waiter && (sent || received)) waiter->progressed();
    // What was sent has changed nothing for the receives, which were looked at after it.
    if (received || completed_ == count || !ready_.empty()) continue;
    if (!waiter)
      waiter.emplace(transport_, monitor_, operation.fingerprint, operation.caller.deadline(), operation.report_after);
    if (waiter->should_block()) block(*waiter);
  }
}

void Executor::start(std::uint32_t index) {
  const PlanStep& planned = plan_->steps[index];
  const Step& step = planned.step;
  const auto& f = operation_->fingerprint;
  switch (step.kind) {
    case Step::Kind::Send: {
      Outgoing& frame = outgoing_[index];
      frame.header = {FrameKind::Collective, f, nbytes(step.source), planned.ordinal};
      frame.payload = address(step.source);
      try {
        transport_.collective(step.peer).queue(frame);  // the frames behind it may leave with it
      } catch (const Error& error) {
        explain_loss(error, step.peer);
      }
      release(planned.on_start);
      if (frame.done()) return complete(index);
      active_sends_.push_back(index);
      return;
    }
    case Step::Kind::Recv:
    case Step::Kind::RecvReduce:
      active_receives_.push_back({.index = index});
      return;
    case Step::Kind::Copy:
      if (step.source.count > 0 && address(step.source) != address(step.target))
        std::memcpy(address(step.target), address(step.source), nbytes(step.source));
      return complete(index);
    case Step::Kind::Reduce:
      combine(address(step.target), address(step.source), step.source.count, step.incoming_first);
      return complete(index);
  }
}

void Executor::complete(std::uint32_t index) {
  ++completed_;
  release(plan_->steps[index].on_complete);
}

void Executor::release(const std::vector<std::uint32_t>& steps) {
  for (std::uint32_t step : steps)
    if (--waits_for_[step] == 0) ready_.push_back(step);
}

bool Executor::advance_sends() {
  bool moved = false;
  ++pass_;
  for (std::size_t i = 0; i < active_sends_.size();) {
    const std::uint32_t index = active_sends_[i];
    Outgoing& frame = outgoing_[index];
    const std::uint64_t before = frame.written_;
    const int peer = plan_->steps[index].step.peer;
    try {
      const bool flushed = std::exchange(flushed_in_[static_cast<std::size_t>(peer)], pass_) == pass_;
      if (!flushed) transport_.collective(peer).flush();  // for all frames of the link
    } catch (const Error& error) {
      explain_loss(error, peer);
    }
    moved |= frame.written_ != before;
    if (!frame.done()) {
      ++i;
      continue;
    }
    moved = true;
    active_sends_.erase(active_sends_.begin() + static_cast<std::ptrdiff_t>(i));
    complete(index);
  }
  return moved;
}

bool Executor::advance_receives() {
  bool moved = false;
  for (std::size_t i = 0; i < active_receives_.size();) {
    ActiveReceive& receive = active_receives_[i];
    const Step& step = plan_->steps[receive.index].step;
    try {
      moved |= advance(receive);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::PeerLost) throw;
      explain_loss(error, step.peer);
    }
    if (!receive.matched || receive.arrived < nbytes(step.target)) {
      ++i;
      continue;
    }
    const std::uint32_t index = receive.index;
    active_receives_.erase(active_receives_.begin() + static_cast<std::ptrdiff_t>(i));
    complete(index);
  }
  return moved;
}

bool Executor::advance(ActiveReceive& receive) {
  const PlanStep& planned = plan_->steps[receive.index];
  const Step& step = planned.step;
  Link& link = transport_.collective(step.peer);
  const std::size_t total = nbytes(step.target);
  if (!receive.matched) {
    const FrameHeader* header = link.peek();
    if (!header) return false;
    compare(*header, planned);
    receive.matched = true;
    if (total == 0) link.read(nullptr, 0);
  }
  bool moved = false;
  while (receive.arrived < total) {
    const std::size_t before = receive.arrived;
    if (step.kind == Step::Kind::RecvReduce) {
      read_reduce(receive, link, total);
    } else {
      receive.arrived += link.read(address(step.target) + receive.arrived, total - receive.arrived);
    }
    if (receive.arrived == before) break;
    moved = true;
  }
  return moved || total == 0;
}

void Executor::combine(std::byte* target, const std::byte* incoming, std::size_t count, bool incoming_first) {
  const Fingerprint& f = operation_->fingerprint;
  if (operation_->user_op) {
    reduce_into(target, incoming, count, f.dtype, *operation_->user_op, incoming_first, turned_);
  } else {
    reduce_into(target, incoming, count, f.dtype, f.reduce_op, incoming_first);
  }
}

void Executor::read_reduce(ActiveReceive& receive, Link& link, std::size_t total) {
  const Step& step = plan_->steps[receive.index].step;
  if (const auto there = link.readable(); !there.empty()) {  // reduced where it lies
    const std::size_t whole = there.size() / element_bytes_ * element_bytes_;
    combine(address(step.target) + receive.reduced, there.data(), whole / element_bytes_, step.incoming_first);
    link.consume(whole);
    receive.arrived = receive.reduced += whole;
    return;
  }
  if (bounce_.empty()) bounce_.resize(kBounceBytes);
  const std::size_t kept = receive.arrived - receive.reduced;  // the beginning of an element that came in two parts
  std::memcpy(bounce_.data(), receive.partial.data(), kept);
  const std::size_t came = link.read(bounce_.data() + kept, std::min(kBounceBytes - kept, total - receive.arrived));
  receive.arrived += came;
  const std::size_t whole = (kept + came) / element_bytes_ * element_bytes_;
  if (whole > 0)
    combine(address(step.target) + receive.reduced, bounce_.data(), whole / element_bytes_, step.incoming_first);
  receive.reduced += whole;
  std::memcpy(receive.partial.data(), bounce_.data() + whole, kept + came - whole);
}

void Executor::compare(const FrameHeader& header, const PlanStep& planned) const {
  const Fingerprint& ours = operation_->fingerprint;
  const Fingerprint& theirs = header.fingerprint;
  if (header.kind == FrameKind::Collective && theirs == ours && header.nbytes == nbytes(planned.step.target) &&
      header.id == planned.ordinal)
    return;
  const std::string peer = monitor_.describe(planned.step.peer);
  if (header.kind != FrameKind::Collective || theirs.group != ours.group)
    throw Error(ErrorCode::Protocol, "received a frame from ", peer, " that belongs to no collective of this group");
  if (theirs != ours) disagree(theirs, peer);
  if (ours.op == OpKind::AllToAllV && header.nbytes != nbytes(planned.step.target))
    throw Error(ErrorCode::Mismatch, monitor_.short_name(transport_.rank()), " expects ", planned.step.target.count,
                " elements from ", peer, ", which sends ", header.nbytes / element_bytes_, ": compare its send_counts[",
                transport_.rank(), "] with recv_counts[", planned.step.peer, "] here");
  throw Error(ErrorCode::Mismatch, monitor_.short_name(transport_.rank()), " expected message ", planned.ordinal,
              " of ", nbytes(planned.step.target), " bytes from ", peer, ", which sent message ", header.id, " of ",
              header.nbytes, " bytes: do all ranks use the same algorithm (this one: ", plan_->algorithm, ")?");
}

void Executor::disagree(const Fingerprint& theirs, const std::string& peer) const {
  const Fingerprint& ours = operation_->fingerprint;
  const Fingerprint& then = history_[theirs.seq % history_.size()];
  const bool earlier = theirs.seq < ours.seq && then.seq == theirs.seq && then != theirs;
  throw Error(ErrorCode::Mismatch, monitor_.short_name(transport_.rank()), " called ",
              (earlier ? then : ours).to_string(), ", but ", peer, " called ", theirs.to_string());
}

void Executor::block(Waiter& waiter) {
  std::vector<Link*> links;
  std::vector<int> peers;
  const auto add = [&](std::uint32_t index) {
    const int peer = plan_->steps[index].step.peer;
    if (std::find(peers.begin(), peers.end(), peer) != peers.end()) return;
    peers.push_back(peer);
    links.push_back(&transport_.collective(peer));
  };
  for (const ActiveReceive& receive : active_receives_) add(receive.index);
  for (std::uint32_t send : active_sends_) add(send);
  waiter.block(links, peers);
}

void Executor::explain_loss(const Error& error, int peer) { monitor_.explain_loss(error, std::span(&peer, 1)); }

}  // namespace tutti::comm
