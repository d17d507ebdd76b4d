#include <tutti/comm/algorithms/simulation_engine.h>
#include <tutti/comm/base/error.h>

#include <algorithm>
#include <utility>

namespace tutti::comm {

SimulationEngine::SimulationEngine(Programs programs, int world_size, const NetworkModel& network,
                                   const std::vector<int>& host_of, const TransferObserver& observer,
                                   const CompletionObserver& on_completion)
    : programs_(std::move(programs)),
      world_size_(world_size),
      network_(network),
      observer_(observer),
      on_completion_(on_completion) {
  settle(host_of);
  for (const RankProgram* program : programs_) {
    first_step_.push_back(waits_.size());
    first_lane_.push_back(lanes_.size());
    for (const auto& step : program->steps) waits_.push_back(step.waits_for);
    lanes_.resize(lanes_.size() + program->lanes.size());
  }
  ports_.resize(programs_.size());
  result_.ranks.resize(programs_.size());
  for (std::size_t rank = 0; rank < programs_.size(); ++rank) connect(rank);
}

void SimulationEngine::connect(std::size_t rank) {
  const RankProgram& program = *programs_[rank];
  for (std::uint32_t i = 0; i < program.lanes.size(); ++i) {
    const RankProgram::Lane& lane = program.lanes[i];
    const std::size_t peer = (rank + static_cast<std::size_t>(lane.distance)) % static_cast<std::size_t>(world_size_);
    const std::size_t other = programs_.size() == 1 ? 0 : peer;
    const RankProgram& theirs = *programs_[other];
    const RankProgram::Lane* match = theirs.find_lane(!lane.is_send, world_size_ - lane.distance);
    for (std::size_t k = 0; k < lane.steps.size(); ++k) {
      if (match == nullptr || k >= match->steps.size() ||
          theirs.steps[match->steps[k]].bytes != program.steps[lane.steps[k]].bytes) {
        throw Error(ErrorCode::InvalidArgument, text({rank, lane.steps[k]}) + " has no counterpart of its length");
      }
    }
    state({rank, i}).peer = {other, static_cast<std::uint32_t>(match - theirs.lanes.data())};
  }
}

std::string SimulationEngine::text(StepId id) const {
  const RankProgram::CompactStep& what = step(id);
  std::string result = "step " + std::to_string(id.step) + " at rank " + std::to_string(id.rank);
  if (what.kind == Step::Kind::Copy || what.kind == Step::Kind::Reduce) return result;
  const RankProgram::Lane& on = programs_[id.rank]->lanes[what.lane];
  const int peer = (static_cast<int>(id.rank) + on.distance) % world_size_;
  return result + (on.is_send ? " (sends " : " (receives ") + std::to_string(what.bytes) + " bytes " +
         (on.is_send ? "to" : "from") + " rank " + std::to_string(peer) + ")";
}

Simulation SimulationEngine::run() {
  for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
    const auto size = static_cast<std::uint32_t>(programs_[rank]->steps.size());
    for (std::uint32_t step = 0; step < size; ++step) {
      if (programs_[rank]->steps[step].waits_for == 0) release({rank, step});
    }
  }
  complete_local();
  start_messages();
  while (!events_.empty()) {
    // First all that happens at this time, then what can start because of it: the order of ranks decides nothing.
    const auto next = events_.begin();
    now_ = next->first;
    for (std::size_t i = 0; i < next->second.size(); ++i) handle(Event(next->second[i]));  // more may come meanwhile
    events_.erase(next);
    start_messages();
  }
  require_all_complete();
  return std::move(result_);
}

void SimulationEngine::handle(const Event& event) {
  if (event.is_transfer) {
    end_transfer({event.rank, event.index});
  } else {
    done_.push_back({event.rank, event.index});
  }
  complete_local();
}

void SimulationEngine::release(StepId id) {
  const RankProgram::CompactStep& what = step(id);
  switch (what.kind) {
    case Step::Kind::Copy:
      done_.push_back(id);
      break;
    case Step::Kind::Reduce:
      reduce(id);
      break;
    default:
      if (state({id.rank, what.lane}).cursor == what.ordinal) set_ready({id.rank, what.lane});
  }
}

void SimulationEngine::reduce(StepId id) {
  const double seconds = static_cast<double>(step(id).bytes) * network_.gamma * slowdown(id.rank);
  double& busy = ports_[id.rank].reduces_until;
  busy = std::max(busy, now_) + seconds;
  if (busy > now_) {
    events_[busy].push_back({id.rank, id.step, false});
  } else {
    done_.push_back(id);
  }
}

void SimulationEngine::complete_local() {
  for (std::size_t i = 0; i < done_.size(); ++i) complete(done_[i]);
  done_.clear();
}

void SimulationEngine::complete(StepId id) {
  result_.ranks[id.rank].finish = now_;
  ++completed_;
  if (on_completion_) on_completion_(static_cast<int>(id.rank), id.step, now_);
  for (const std::uint32_t dependent : programs_[id.rank]->dependents(id.step)) {
    if (--waits({id.rank, dependent}) == 0) release({id.rank, dependent});
  }
}

void SimulationEngine::require_all_complete() {
  if (completed_ == waits_.size()) return;
  for (std::size_t rank = 0; rank < programs_.size(); ++rank) {
    for (std::uint32_t i = 0; i < programs_[rank]->lanes.size(); ++i) {
      if (state({rank, i}).cursor == lane({rank, i}).steps.size()) continue;
      throw Error(ErrorCode::InvalidArgument,
                  "the schedules wait for each other: " + text(head({rank, i})) + " can never complete");
    }
  }
}

// --- Which message passes next

void SimulationEngine::settle(const std::vector<int>& host_of) {
  std::map<int, std::size_t> number_of;
  for (std::size_t rank = 0; rank < host_of.size(); ++rank) {
    const auto [it, is_new] = number_of.try_emplace(host_of[rank], hosts_.size());
    if (is_new) hosts_.emplace_back();
    host_of_.push_back(it->second);
    hosts_[it->second].members.push_back(rank);
  }
}

void SimulationEngine::set_ready(LaneId here) {
  state(here).is_ready = true;
  const LaneId there = state(here).peer;
  if (!state(there).is_ready) return;
  const LaneId from = lane(here).is_send ? here : there;
  const LaneId to = lane(here).is_send ? there : here;
  enqueue(ports_[from.rank].outgoing, {from, now_, head(from).step});
  enqueue(ports_[to.rank].incoming, {from, now_, head(to).step});
  senders_.push_back(from.rank);
}

void SimulationEngine::enqueue(std::vector<Waiting>& list, const Waiting& message) {
  auto place = list.end();
  while (place != list.begin() && message.is_before(*(place - 1))) --place;
  list.insert(place, message);
}

void SimulationEngine::start_messages() {
  for (const std::size_t rank : senders_) start_first(ports_[rank].outgoing);
  for (const std::size_t rank : receivers_) start_first(ports_[rank].incoming);
  senders_.clear();
  receivers_.clear();
}

void SimulationEngine::start_first(const std::vector<Waiting>& messages) {
  for (const Waiting& message : messages) {
    const LaneId from = message.from;
    const std::size_t to = state(from).peer.rank;
    if (ports_[from.rank].is_sending || ports_[to].is_receiving || host_ports_are_busy(from.rank, to)) continue;
    const auto is_it = [&](const Waiting& other) { return other.from == from; };
    std::erase_if(ports_[to].incoming, is_it);
    std::erase_if(ports_[from.rank].outgoing, is_it);
    return start(from);
  }
}

void SimulationEngine::start(LaneId from) {
  const std::size_t to = state(from).peer.rank;
  const std::uint64_t bytes = step(head(from)).bytes;
  ports_[from.rank].is_sending = ports_[to].is_receiving = true;
  ports_[from.rank].sending_since = now_;
  if (takes_host_ports(from.rank, to)) {
    hosts_[host_of_[from.rank]].is_sending = hosts_[host_of_[to]].is_receiving = true;
  }
  result_.ranks[from.rank].messages_sent += 1;
  result_.ranks[from.rank].bytes_sent += bytes;
  result_.ranks[to].messages_received += 1;
  result_.ranks[to].bytes_received += bytes;
  const double seconds = network_.message_seconds(static_cast<double>(bytes), is_local(from.rank, to)) *
                         std::max(slowdown(from.rank), slowdown(to));
  events_[now_ + seconds].push_back({from.rank, from.lane, true});
}

void SimulationEngine::end_transfer(LaneId from) {
  const LaneId to = state(from).peer;
  const StepId sent = head(from);
  const StepId received = head(to);
  if (observer_) {
    observer_({static_cast<int>(from.rank), static_cast<int>(to.rank), step(sent).bytes,
               ports_[from.rank].sending_since, now_});
  }
  ports_[from.rank].is_sending = false;
  ports_[to.rank].is_receiving = false;
  free_host_ports(from.rank, to.rank);
  senders_.push_back(from.rank);
  receivers_.push_back(to.rank);
  done_.push_back(sent);
  if (step(received).kind == Step::Kind::RecvReduce) {
    reduce(received);
  } else {
    done_.push_back(received);
  }
  next_message(from, to);
}

void SimulationEngine::next_message(LaneId from, LaneId to) {
  for (const LaneId end : {from, to}) {
    state(end).is_ready = false;
    ++state(end).cursor;
  }
  if (state(from).cursor == lane(from).steps.size()) return;
  for (const LaneId end : {from, to}) {
    if (waits(head(end)) == 0) set_ready(end);
  }
}

void SimulationEngine::free_host_ports(std::size_t from, std::size_t to) {
  if (!takes_host_ports(from, to)) return;
  hosts_[host_of_[from]].is_sending = false;
  hosts_[host_of_[to]].is_receiving = false;
  wake_neighbours(from, senders_);
  wake_neighbours(to, receivers_);
}

void SimulationEngine::wake_neighbours(std::size_t rank, std::vector<std::size_t>& list) const {
  const std::vector<std::size_t>& members = hosts_[host_of_[rank]].members;
  const auto self = std::lower_bound(members.begin(), members.end(), rank);
  list.insert(list.end(), self + 1, members.end());
  list.insert(list.end(), members.begin(), self + 1);
}

}  // namespace tutti::comm
