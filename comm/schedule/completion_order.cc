#include <tutti/comm/base/format.h>
#include <tutti/comm/schedule/completion_order.h>
#include <tutti/comm/schedule/schedule.h>

#include <algorithm>

namespace tutti::comm {
namespace {

/// A step of any rank by one number. kNone where there is no such step.
using Node = std::uint32_t;
constexpr Node kNone = UINT32_MAX;

class Graph {
 public:
  explicit Graph(std::span<const Schedule> schedules) : schedules_(schedules) {
    for (const Schedule& schedule : schedules) {
      first_.push_back(static_cast<Node>(rank_of_.size()));
      rank_of_.resize(rank_of_.size() + schedule.steps.size(), static_cast<int>(first_.size() - 1));
    }
    partner_.assign(size(), kNone);
    earlier_message_.assign(size(), kNone);
  }

  std::size_t size() const { return rank_of_.size(); }
  int rank(Node node) const { return rank_of_[node]; }
  std::uint32_t index(Node node) const { return node - first_[static_cast<std::size_t>(rank(node))]; }
  const Step& step(Node node) const { return schedules_[static_cast<std::size_t>(rank(node))].steps[index(node)]; }
  Node partner(Node node) const { return partner_[node]; }
  std::string text(Node node) const { return describe(rank(node), index(node), step(node)); }

  /// Pairs sends with receives; returns the first fault.
  std::string match() {
    const auto p = schedules_.size();
    std::vector<std::vector<Node>> sent(p * p), received(p * p);  // [from * p + to]
    for (Node node = 0; node < size(); ++node) {
      const auto here = static_cast<std::size_t>(rank(node));
      const auto peer = static_cast<std::size_t>(step(node).peer);
      if (sends(step(node))) append(sent[here * p + peer], node);
      if (receives(step(node))) append(received[peer * p + here], node);
    }
    for (std::size_t pair = 0; pair < p * p; ++pair) {
      std::string fault = match(sent[pair], received[pair]);
      if (!fault.empty()) return fault;
    }
    return {};
  }

  /// What must be complete before `node` may start: its `after`, and the message before it in the same direction.
  std::vector<Node> waits_for(Node node) const {
    const Node first = first_[static_cast<std::size_t>(rank(node))];
    std::vector<Node> result;
    for (const std::uint32_t index : step(node).after) result.push_back(first + index);
    if (earlier_message_[node] != kNone) result.push_back(earlier_message_[node]);
    return result;
  }

 private:
  void append(std::vector<Node>& lane, Node node) {
    if (!lane.empty()) earlier_message_[node] = lane.back();
    lane.push_back(node);
  }

  std::string match(const std::vector<Node>& sent, const std::vector<Node>& received) {
    for (std::size_t k = 0; k < std::max(sent.size(), received.size()); ++k) {
      if (k >= received.size()) return text(sent[k]) + " has no matching receive";
      if (k >= sent.size()) return text(received[k]) + " has no matching send";
      if (step(sent[k]).source.count != step(received[k]).target.count) {
        return text(sent[k]) + " meets " + text(received[k]) + ": their counts differ";
      }
      partner_[sent[k]] = received[k];
      partner_[received[k]] = sent[k];
    }
    return {};
  }

  std::span<const Schedule> schedules_;
  std::vector<Node> first_;            // per rank
  std::vector<int> rank_of_;           // per node, as the rest
  std::vector<Node> partner_;          // the other end of the message
  std::vector<Node> earlier_message_;  // the step before it that talks to the same peer in the same direction
};

class Simulation {
 public:
  explicit Simulation(const Graph& graph)
      : graph_(graph), waiting_(graph.size(), 0), done_(graph.size(), false), dependents_(graph.size()) {
    for (Node node = 0; node < graph.size(); ++node) {
      const auto others = graph.waits_for(node);
      waiting_[node] = others.size();
      for (const Node other : others) dependents_[other].push_back(node);
    }
  }

  CompletionOrder run() {
    CompletionOrder order;
    std::vector<Node> ready;
    for (Node node = 0; node < graph_.size(); ++node) {
      if (waiting_[node] == 0) ready.push_back(node);
    }
    while (!ready.empty()) {
      const Node node = ready.back();
      ready.pop_back();
      if (done_[node]) continue;  // completed together with its partner
      const Node partner = graph_.partner(node);
      if (partner != kNone && waiting_[partner] > 0) continue;  // the partner will find it
      order.events.push_back(event(node, partner));
      complete(node, ready);
      if (partner != kNone) complete(partner, ready);
    }
    const auto stuck = std::find(done_.begin(), done_.end(), false);
    if (stuck != done_.end()) order.fault = explain(static_cast<Node>(stuck - done_.begin()));
    return order;
  }

 private:
  Event event(Node node, Node partner) const {
    if (partner == kNone) return {graph_.rank(node), graph_.index(node), -1, 0};
    if (!sends(graph_.step(node))) std::swap(node, partner);
    return {graph_.rank(node), graph_.index(node), graph_.rank(partner), graph_.index(partner)};
  }

  void complete(Node node, std::vector<Node>& ready) {
    done_[node] = true;
    for (const Node dependent : dependents_[node]) {
      if (--waiting_[dependent] == 0) ready.push_back(dependent);
    }
  }

  std::string explain(Node node) const {
    TextStream text;
    text << "deadlock: " << graph_.text(node);
    std::vector<Node> seen;
    while (std::find(seen.begin(), seen.end(), node) == seen.end()) {
      seen.push_back(node);
      Node next = graph_.partner(node);
      for (const Node other : graph_.waits_for(node)) {
        if (!done_[other]) next = other;
      }
      node = next;
      text << (seen.size() == 1 ? " waits for " : ", which waits for ") << graph_.text(node);
    }
    return text.str();
  }

  const Graph& graph_;
  std::vector<std::size_t> waiting_;  // per node: how many it waits for
  std::vector<bool> done_;
  std::vector<std::vector<Node>> dependents_;
};

}  // namespace

CompletionOrder completion_order(std::span<const Schedule> schedules) {
  Graph graph(schedules);
  std::string fault = graph.match();
  if (!fault.empty()) return {{}, std::move(fault)};
  return Simulation(graph).run();
}

}  // namespace tutti::comm
