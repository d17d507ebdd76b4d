#include <tutti/comm/base/error.h>
#include <tutti/comm/schedule/step_graph.h>

#include <algorithm>
#include <numeric>
#include <tuple>

namespace tutti::comm {
namespace {

using Node = StepGraph::Node;

/// One end of a message. Both ends have the same (from, to), and lie in the order of their steps.
struct End {
  int from, to;
  Node node;

  auto pair() const { return std::tie(from, to); }
  auto operator<=>(const End& other) const = default;
};

/// "deadlock: A waits for B, which waits for ..." until a step comes again.
std::string explain_deadlock(const StepGraph& graph, const std::vector<bool>& done, Node node) {
  std::string text = "deadlock: " + graph.text(node);
  std::vector<Node> seen;
  while (std::find(seen.begin(), seen.end(), node) == seen.end()) {
    seen.push_back(node);
    Node next = graph.partner(node);
    for (const std::uint32_t earlier : graph.step(node).after) {
      const Node other = node - graph.index(node) + earlier;
      if (!done[other]) next = other;
    }
    for (Node other = 0; other < graph.size(); ++other) {
      if (graph.next_message(other) == node && !done[other]) next = other;
    }
    node = next;
    text += (seen.size() == 1 ? " waits for " : ", which waits for ") + graph.text(node);
  }
  return text;
}

}  // namespace

StepGraph::StepGraph(std::span<const Schedule> schedules, int world_size) : schedules_(schedules) {
  for (const Schedule& schedule : schedules) {
    first_.push_back(static_cast<Node>(size()));
    rank_of_.resize(size() + schedule.steps.size(), static_cast<int>(first_.size() - 1));
  }
  connect_steps(world_size);
  match_messages(world_size);
}

void StepGraph::connect_steps(int world_size) {
  first_dependent_.assign(size() + 1, 0);
  waits_.assign(size(), 0);
  for (Node node = 0; node < size(); ++node) {
    const Step& here = step(node);
    if (sends(here) || receives(here)) {
      if (here.peer < 0 || here.peer >= world_size)
        refuse(text(node), " names a peer outside of 0 .. ", world_size - 1);
      if (here.peer == rank(node)) refuse(text(node), " talks to itself");
    }
    for (const std::uint32_t earlier : here.after) {
      if (earlier >= index(node)) refuse(text(node), " comes after step ", earlier, ", which is not an earlier one");
      ++first_dependent_[node - index(node) + earlier + 1];
    }
    waits_[node] = static_cast<std::uint32_t>(here.after.size());
  }
  std::partial_sum(first_dependent_.begin(), first_dependent_.end(), first_dependent_.begin());
  dependents_.resize(first_dependent_.back());
  std::vector<std::uint32_t> next(first_dependent_.begin(), first_dependent_.end() - 1);
  for (Node node = 0; node < size(); ++node) {
    for (const std::uint32_t earlier : step(node).after) dependents_[next[node - index(node) + earlier]++] = node;
  }
}

void StepGraph::match_messages(int world_size) {
  std::vector<End> sent, received;
  const bool one_for_all = ranks() < static_cast<std::size_t>(world_size);
  for (Node node = 0; node < size(); ++node) {
    const int here = rank(node), peer = step(node).peer;
    if (sends(step(node))) sent.push_back({here, peer, node});
    // What rank 0 receives from `peer` is what it sends, in its turn, to the rank that is as far behind it.
    if (receives(step(node))) received.push_back(one_for_all ? End{0, world_size - peer, node} : End{peer, here, node});
  }
  partner_.assign(size(), kNone);
  next_message_.assign(size(), kNone);
  for (std::vector<End>* ends : {&sent, &received}) {
    std::sort(ends->begin(), ends->end());
    for (std::size_t i = 1; i < ends->size(); ++i) {
      if ((*ends)[i - 1].pair() != (*ends)[i].pair()) continue;
      next_message_[(*ends)[i - 1].node] = (*ends)[i].node;
      ++waits_[(*ends)[i].node];
    }
  }
  for (std::size_t i = 0; i < std::max(sent.size(), received.size()); ++i) {
    if (i >= received.size() || (i < sent.size() && sent[i].pair() < received[i].pair()))
      refuse(text(sent[i].node), " has no matching receive");
    if (i >= sent.size() || received[i].pair() < sent[i].pair())
      refuse(text(received[i].node), " has no matching send");
    const Node from = sent[i].node, to = received[i].node;
    if (step(from).source.count != step(to).target.count)
      refuse(text(from), " meets ", text(to), ": their counts differ");
    partner_[from] = to;
    partner_[to] = from;
  }
}

std::vector<Node> completion_order(const StepGraph& graph) {
  std::vector<Node> order, ready;
  std::vector<std::uint32_t> waits = graph.waits();
  std::vector<bool> done(graph.size());
  for (Node node = 0; node < graph.size(); ++node) {
    if (waits[node] == 0) ready.push_back(node);
  }
  const auto release = [&](Node node) {
    if (--waits[node] == 0) ready.push_back(node);
  };
  const auto complete = [&](Node node) {
    done[node] = true;
    for (const Node dependent : graph.dependents(node)) release(dependent);
    if (graph.next_message(node) != StepGraph::kNone) release(graph.next_message(node));
  };
  while (!ready.empty()) {
    const Node node = ready.back(), partner = graph.partner(node);
    ready.pop_back();
    if (done[node]) continue;  // completed together with its partner
    if (partner == StepGraph::kNone) {
      order.push_back(node);
      complete(node);
    } else if (waits[partner] == 0) {  // else the partner will find it
      order.push_back(sends(graph.step(node)) ? node : partner);
      complete(node);
      complete(partner);
    }
  }
  const auto stuck = std::find(done.begin(), done.end(), false);
  if (stuck != done.end()) refuse(explain_deadlock(graph, done, static_cast<Node>(stuck - done.begin())));
  return order;
}

}  // namespace tutti::comm
