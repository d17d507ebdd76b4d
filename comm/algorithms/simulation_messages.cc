#include <tutti/comm/algorithms/simulation_engine.h>

#include <algorithm>
#include <map>

namespace tutti::comm {

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
