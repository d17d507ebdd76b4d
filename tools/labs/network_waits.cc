// Who waits for whom, when nothing can happen any more.

#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/network.h>

#include <algorithm>

namespace tutti::labs {

std::string call_text(bool is_send, bool is_begun, std::size_t bytes, std::size_t element_bytes, int peer, int tag) {
  return std::string(is_begun ? "i" : "") + (is_send ? "send of " : "recv of ") +
         counted(bytes / element_bytes, "element") + (is_send ? " to " : " from ") +
         (peer == kAnySource ? "anybody" : "rank " + std::to_string(peer)) +
         (tag == 0 ? "" : ", tag " + std::to_string(tag));
}

std::string Network::text_of(Operation operation) const {
  const Op& op = operations_[operation];
  return call_text(op.is_send, false, op.bytes, op.element_bytes, op.peer, op.tag);
}

// The ranks of a cycle, in its order: each waits for the next one, and the last for the first.
std::vector<int> Network::cycle() const {
  std::vector<int> target(clock_.size(), -1);
  for (int rank = 0; rank < world_size(); ++rank) {
    if (state_[at(rank)] == State::Waiting || state_[at(rank)] == State::Polling) {
      target[at(rank)] = operations_[awaited_[at(rank)]].peer;
    }
  }
  for (int start = 0; start < world_size(); ++start) {
    std::vector<int> path;
    int rank = start;
    while (rank >= 0 && std::find(path.begin(), path.end(), rank) == path.end()) {
      path.push_back(rank);
      rank = target[at(rank)];
    }
    if (rank >= 0) return {std::find(path.begin(), path.end(), rank), path.end()};
  }
  return {};
}

std::vector<Network::Wait> Network::waits() const {
  std::vector<int> order = cycle();
  for (int rank = 0; rank < world_size(); ++rank) {
    if (std::find(order.begin(), order.end(), rank) == order.end()) order.push_back(rank);
  }
  std::vector<Wait> result;
  for (const int rank : order) {
    const State state = state_[at(rank)];
    if (state != State::Waiting && state != State::Polling) continue;
    const Operation awaited = awaited_[at(rank)];
    result.push_back({rank, operations_[awaited].peer, awaited, state == State::Polling});
  }
  return result;
}

Objection Network::explain_stuck() const {
  const std::vector<int> round = cycle();
  std::string text;
  for (std::size_t i = 0; i < round.size(); ++i) {
    text +=
        (i == 0 ? "" : ", ") + std::to_string(round[i]) + " waits for " + std::to_string(round[(i + 1) % round.size()]);
  }
  if (round.empty()) text = "nobody can go on";
  const char* found = diagnosis::kDeadlock;
  std::size_t told = 0;
  for (const Wait& wait : waits()) {
    if (++told > 8) {
      text += "; and others";
      break;
    }
    text += (told == 1 ? ": rank " : "; rank ") + std::to_string(wait.rank) + " is in a " + text_of(wait.operation);
    if (wait.polls) text += ", asking again and again whether it is complete";
    if (operations_[wait.operation].is_send) text += ", which waits until it is received";
    if (wait.peer >= 0 && state_[at(wait.peer)] == State::Finished) {
      text += ", but rank " + std::to_string(wait.peer) + " has returned from the function already";
    }
    if (wait.peer == wait.rank) text += ", that is itself";
    if (const auto other = unfitting_send(wait.operation)) {
      found = diagnosis::kTagMismatch;
      text += ", while rank " + std::to_string(operations_[*other].rank) + "'s " + text_of(*other) +
              (operations_[*other].tag == 0 ? ", tag 0" : "") + ", lies unreceived: the receive asks for tag " +
              std::to_string(operations_[wait.operation].tag);
    }
  }
  return {found, text};
}

// What the rank that a receive waits for has sent to it with another tag.
std::optional<Network::Operation> Network::unfitting_send(Operation receive) const {
  const Op& op = operations_[receive];
  if (op.is_send) return std::nullopt;
  for (const Operation sent : open_sends_[at(op.rank)]) {
    const Op& send = operations_[sent];
    if (send.tag != op.tag && (op.peer == kAnySource || op.peer == send.rank)) return sent;
  }
  return std::nullopt;
}

std::optional<Objection> Network::left_over() const {
  for (const auto& sends : open_sends_) {
    if (sends.empty()) continue;
    const Op& op = operations_[sends.front()];
    return Objection{diagnosis::kLeftOver,
                     "rank " + std::to_string(op.rank) + "'s " + text_of(sends.front()) + " was never received"};
  }
  return std::nullopt;
}

}  // namespace tutti::labs
