#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/network.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace tutti::labs {
namespace {

// A rank that asks again and again gets older by this part of alpha each time.
constexpr double kPollShare = 1;
constexpr int kMostIdlePolls = 100;

}  // namespace

Network::Network(int world_size, const NetworkSettings& settings)
    : settings_(settings),
      clock_(at(world_size), 0),
      send_port_(at(world_size), 0),
      receive_port_(at(world_size), 0),
      state_(at(world_size), State::Running),
      awaited_(at(world_size), kNoOperation),
      orders_(at(world_size), 0),
      open_sends_(at(world_size)),
      open_receives_(at(world_size)),
      traffic_(at(world_size)) {}

Network::Operation Network::add(Op op) {
  op.posted = clock(op.rank);
  op.order = orders_[at(op.rank)]++;
  operations_.push_back(std::move(op));
  return operations_.size() - 1;
}

Network::Posted Network::no_such_rank(int rank, const char* does, int peer) const {
  return {kNoOperation,
          Objection{diagnosis::kNoSuchRank, "rank " + std::to_string(rank) + does + std::to_string(peer) +
                                                "; the ranks are 0 .. " + std::to_string(world_size() - 1)}};
}

Network::Posted Network::send(int rank, int destination, int tag, Bytes message, std::size_t element_bytes) {
  if (destination < 0 || destination >= world_size()) return no_such_rank(rank, " sends to rank ", destination);
  Op op;
  op.rank = rank;
  op.is_send = true;
  op.peer = destination;
  op.tag = tag;
  op.bytes = message.size();
  op.element_bytes = element_bytes;
  op.message = std::move(message);
  op.late = lateness(rank, destination, orders_[at(rank)]);
  bytes_in_flight_ += op.bytes;
  Traffic& traffic = traffic_[at(rank)];
  ++traffic.messages_sent;
  traffic.bytes_sent += op.bytes;
  const bool eager = is_eager(op);
  const Operation made = add(std::move(op));
  open_sends_[at(destination)].push_back(made);
  if (eager) unscheduled_.push_back(made);
  return {made, {}};
}

Network::Posted Network::receive(int rank, int source, int tag, std::size_t bytes, std::size_t element_bytes) {
  if (source < kAnySource || source >= world_size()) return no_such_rank(rank, " receives from rank ", source);
  Op op;
  op.rank = rank;
  op.peer = source;
  op.tag = tag;
  op.bytes = bytes;
  op.element_bytes = element_bytes;
  const Operation made = add(std::move(op));
  open_receives_[at(rank)].push_back(made);
  return {made, {}};
}

void Network::wait(int rank, Operation operation) {
  state_[at(rank)] = State::Waiting;
  awaited_[at(rank)] = operation;
}

void Network::poll(int rank, Operation operation) {
  state_[at(rank)] = State::Polling;
  awaited_[at(rank)] = operation;
}

void Network::finish(int rank) { state_[at(rank)] = State::Finished; }

// By time; of things at the same time those that let messages pass come before ranks that go on, and then the lower
// rank does: nothing depends on the order in which processes happened to speak.
void Network::consider(Candidate& best, Candidate other) const {
  other.order = operations_[other.first].order;
  const auto key = [](const Candidate& c) { return std::tuple(c.time, c.kind, c.rank, c.order); };
  if (best.kind == Candidate::Kind::None || key(other) < key(best)) best = other;
}

// Uniform below jitter alpha, and the same for the same message whenever it is asked (splitmix64).
double Network::lateness(int from, int to, std::size_t order) const {
  if (settings_.jitter <= 0) return 0;
  std::uint64_t x = settings_.seed * 0x9E37'79B9'7F4A'7C15u + (static_cast<std::uint64_t>(from) << 48) +
                    (static_cast<std::uint64_t>(to) << 32) + order;
  for (int round = 0; round < 2; ++round) {
    x += 0x9E37'79B9'7F4A'7C15u;
    x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9u;
    x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBu;
    x ^= x >> 31;
  }
  return static_cast<double>(x >> 11) * 0x1p-53 * settings_.jitter * settings_.alpha;
}

void Network::consider_match(Candidate& best, Operation number) const {
  const Op& receive = operations_[number];
  std::vector<int> seen;  // a sender's first fitting message is the only one that may be taken
  for (const Operation candidate : open_sends_[at(receive.rank)]) {
    const Op& send = operations_[candidate];
    if (send.tag != receive.tag || (receive.peer != kAnySource && send.rank != receive.peer)) continue;
    if (std::find(seen.begin(), seen.end(), send.rank) != seen.end()) continue;
    seen.push_back(send.rank);
    if (is_eager(send) && !send.is_scheduled) {
      if (receive.peer != kAnySource) return;
      continue;
    }
    const double available = send.is_scheduled ? send.arrives : send.posted + send.late;
    consider(best, {Candidate::Kind::Match, std::max(available, receive.posted), candidate, number, send.rank, 0});
    if (receive.peer != kAnySource || static_cast<int>(seen.size()) == world_size()) return;
  }
}

Network::Candidate Network::next() const {
  Candidate best;
  for (const Operation number : unscheduled_) {
    const Op& send = operations_[number];
    const double time = std::max({send.posted, send_port_[at(send.rank)], receive_port_[at(send.peer)]});
    consider(best, {Candidate::Kind::Schedule, time, number, kNoOperation, send.rank, 0});
  }
  for (const auto& receives : open_receives_) {
    for (std::size_t i = 0; i < receives.size(); ++i) {
      const Op& receive = operations_[receives[i]];
      const bool comes_after_another =
          std::any_of(receives.begin(), receives.begin() + static_cast<std::ptrdiff_t>(i), [&](Operation earlier) {
            const Op& other = operations_[earlier];
            return other.tag == receive.tag &&
                   (other.peer == kAnySource || receive.peer == kAnySource || other.peer == receive.peer);
          });
      if (!comes_after_another) consider_match(best, receives[i]);
    }
  }
  for (int rank = 0; rank < world_size(); ++rank) {
    const Operation awaited = awaited_[at(rank)];
    if (state_[at(rank)] == State::Waiting && operations_[awaited].has_end) {
      consider(best, {Candidate::Kind::Resume, std::max(clock(rank), operations_[awaited].end), awaited, kNoOperation,
                      rank, 0});
    }
    if (state_[at(rank)] == State::Polling) {
      consider(best,
               {Candidate::Kind::Poll, clock(rank) + kPollShare * settings_.alpha, awaited, kNoOperation, rank, 0});
    }
  }
  return best;
}

void Network::schedule(Op& send) {
  const bool is_local = send.peer == send.rank;
  double& out = send_port_[at(send.rank)];
  double& in = receive_port_[at(send.peer)];
  const double begin = is_local ? send.posted : std::max({send.posted, out, in});
  const double end = is_local ? begin : begin + settings_.alpha + static_cast<double>(send.bytes) * settings_.beta;
  if (!is_local) out = in = end;
  send.is_scheduled = true;
  send.has_end = true;
  send.end = end;
  send.arrives = end + send.late;
  send.passage = passages_.size();
  passages_.push_back({send.rank, send.peer, send.tag, send.bytes, begin, send.arrives, kNoOperation, kNoOperation});
}

std::optional<Objection> Network::match(Operation send_number, Operation receive_number) {
  Op& send = operations_[send_number];
  Op& receive = operations_[receive_number];
  if (send.bytes != receive.bytes) {
    return Objection{diagnosis::kLengthMismatch,
                     "rank " + std::to_string(receive.rank) + " wants " +
                         counted(receive.bytes / receive.element_bytes, "element") + " (" + text_of(receive_number) +
                         "), but what rank " + std::to_string(send.rank) + " has sent is " +
                         counted(send.bytes / send.element_bytes, "element") + " long (" + text_of(send_number) + ")"};
  }
  if (!send.is_scheduled) {
    send.posted = std::max(send.posted + send.late, receive.posted);
    send.late = 0;
    schedule(send);
  }
  receive.is_matched = send.is_matched = true;
  receive.has_end = true;
  receive.end = std::max(receive.posted, send.arrives);
  receive.other = send_number;
  send.other = receive_number;
  passages_[send.passage].send = send_number;
  passages_[send.passage].receive = receive_number;
  std::erase(open_sends_[at(receive.rank)], send_number);
  std::erase(open_receives_[at(receive.rank)], receive_number);
  Traffic& traffic = traffic_[at(receive.rank)];
  ++traffic.messages_received;
  traffic.bytes_received += receive.bytes;
  return std::nullopt;
}

Network::Event Network::step() {
  for (;;) {
    const Candidate first = next();
    if (first.kind != Candidate::Kind::Poll) idle_polls_ = 0;
    Event event;
    event.rank = first.rank;
    event.operation = first.first;
    switch (first.kind) {
      case Candidate::Kind::None: {
        const bool all = std::all_of(state_.begin(), state_.end(), [](State s) { return s == State::Finished; });
        event.kind = all ? Event::Kind::AllFinished : Event::Kind::Stuck;
        return event;
      }
      case Candidate::Kind::Schedule:
        schedule(operations_[first.first]);
        std::erase(unscheduled_, first.first);
        break;
      case Candidate::Kind::Match:
        if (const auto objection = match(first.first, first.second)) {
          event.kind = Event::Kind::Objection;
          event.objection = *objection;
          return event;
        }
        break;
      case Candidate::Kind::Resume:
        clock_[at(first.rank)] = first.time;
        state_[at(first.rank)] = State::Running;
        event.kind = Event::Kind::Ended;
        return event;
      case Candidate::Kind::Poll: {
        const Op& op = operations_[first.first];
        event.kind = Event::Kind::Answer;
        event.is_complete = op.has_end && op.end <= first.time;
        idle_polls_ = event.is_complete || op.has_end ? 0 : idle_polls_ + 1;
        if (idle_polls_ > kMostIdlePolls * world_size()) {
          event.kind = Event::Kind::Stuck;
          return event;
        }
        clock_[at(first.rank)] = first.time;
        state_[at(first.rank)] = State::Running;
        return event;
      }
    }
  }
}

int Network::source_of(Operation receive) const {
  const Op& op = operations_[receive];
  return op.is_send || op.other == kNoOperation ? kAnySource : operations_[op.other].rank;
}

Bytes Network::take_message(Operation receive) {
  const Op& op = operations_[receive];
  if (op.is_send || op.other == kNoOperation) return {};
  bytes_in_flight_ -= operations_[op.other].message.size();
  return std::exchange(operations_[op.other].message, {});
}

}  // namespace tutti::labs
