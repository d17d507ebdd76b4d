// Which nodes take part in a job: which are admitted, when there are enough for a round, and in an elastic job how a
// round goes on when nodes are lost or come.
#include <tutti/tools/run/nodes/conductor.h>

#include <algorithm>
#include <utility>

namespace tutti::tools {
namespace {

constexpr std::chrono::seconds kLaterProgress{30};
// After the first round those who were in it are there at once; others are let in whenever they come.
constexpr std::chrono::milliseconds kLaterCall{1000};

std::string who(const Hello& hello) { return "pid " + std::to_string(hello.pid) + " on " + hello.host; }

}  // namespace

void Conductor::on_hello(int agent, const Hello& hello) {
  const std::string refusal = objection(hello);
  if (!refusal.empty()) {
    outside_.post(agent, Notice{refusal + "\n"});
    outside_.post(agent, Verdict{0, true, 1, ""});
    return;
  }
  if (hello.nproc == 0) {
    observer_ = agent;
    return;
  }
  agents_[agent] = hello;
  if (phase_ == Phase::Running) admit_newcomer(agent);
}

// Why this agent cannot take part: settings that differ from the coordinator's own (both values are told), a place that
// is taken or does not exist. "" if it can.
std::string Conductor::objection(const Hello& hello) const {
  for (const auto& [name, value] : options_.own.settings) {
    const auto theirs = std::find_if(hello.settings.begin(), hello.settings.end(),
                                     [&, &setting = name](const auto& s) { return s.first == setting; });
    const std::string found = theirs == hello.settings.end() ? "nothing" : "'" + theirs->second + "'";
    if (found != "'" + value + "'")
      return "the nodes disagree on " + name + ": the coordinator (" + who(options_.own) + ") has '" + value +
             "', this node (" + who(hello) + ") has " + found;
  }
  if (!hello.node_rank) return "";
  if (*hello.node_rank < 0 || *hello.node_rank >= options_.nodes.max_nodes)
    return "--node-rank " + std::to_string(*hello.node_rank) + " does not exist among " +
           std::to_string(options_.nodes.max_nodes) + " nodes";
  for (const auto& [agent, other] : agents_) {
    if (other.node_rank == hello.node_rank)
      return "--node-rank " + std::to_string(*hello.node_rank) + " is taken: " + who(other) + " has it, and so has " +
             who(hello);
  }
  return "";
}

void Conductor::gather(Clock::time_point now) {
  if (const auto order = ready(now)) return start_round(*order);
  if (now >= gathering_since_ + options_.nodes.join_timeout) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.nodes.join_timeout).count();
    return finish(1, "not enough nodes have come within " + std::to_string(seconds) + " s: " + progress() + "\n");
  }
  if (now < next_progress_) return;
  next_progress_ = now + kLaterProgress;
  tell(progress() + "\n");
}

std::optional<std::vector<int>> Conductor::static_order() const {
  std::vector<int> order(static_cast<std::size_t>(options_.nodes.max_nodes), -1);
  for (const auto& [agent, hello] : agents_) {
    if (hello.node_rank) order.at(static_cast<std::size_t>(*hello.node_rank)) = agent;
  }
  if (std::find(order.begin(), order.end(), -1) != order.end()) return std::nullopt;
  return order;
}

// The agents of the next round in order of GROUP_RANK, if it is time. Those of the last round keep their places.
std::optional<std::vector<int>> Conductor::ready(Clock::time_point now) {
  if (options_.nodes.is_static()) return static_order();
  const int here = static_cast<int>(agents_.size());
  if (here < options_.nodes.min_nodes) {
    enough_since_.reset();
    return std::nullopt;
  }
  if (!enough_since_) enough_since_ = now;
  const auto patience =
      next_round_ == 0 ? options_.nodes.last_call : std::min<Clock::duration>(options_.nodes.last_call, kLaterCall);
  if (here < options_.nodes.max_nodes && now < *enough_since_ + patience) return std::nullopt;

  std::vector<int> order;
  for (const auto& [agent, hello] : agents_) order.push_back(agent);
  const auto place = [&](int agent) {
    const int last = static_cast<int>(round_ ? round_->plan.nodes.size() : 0);
    return std::pair(!agents_.at(agent).is_coordinators, node_of(agent).value_or(last));
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
  if (here > options_.nodes.max_nodes) order.resize(static_cast<std::size_t>(options_.nodes.max_nodes));
  return order;
}

// "2 of 4 nodes are here; waiting for --node-rank 1 and 3".
std::string Conductor::progress() const {
  const std::string least = std::to_string(options_.nodes.min_nodes);
  std::string text = std::to_string(agents_.size()) + " of " + least +
                     (options_.nodes.fixed_size() ? "" : " to " + std::to_string(options_.nodes.max_nodes)) +
                     " nodes are here";
  if (!options_.nodes.is_static()) return text;
  std::string missing;
  for (int node = 0; node < options_.nodes.max_nodes; ++node) {
    const bool here =
        std::any_of(agents_.begin(), agents_.end(), [&](const auto& agent) { return agent.second.node_rank == node; });
    if (!here) missing += (missing.empty() ? "" : ", ") + std::to_string(node);
  }
  return missing.empty() ? text : text + "; waiting for --node-rank " + missing;
}

// In the middle of a round: room for it is made by a new one, unless the job is about to end anyway.
void Conductor::admit_newcomer(int agent) {
  const std::size_t nodes = round_->plan.nodes.size() - without_.size();
  const bool room = static_cast<int>(nodes) < options_.nodes.max_nodes;
  if (!room || round_->ended.size() > without_.size()) {
    outside_.post(agent, Notice{"the job runs on its " + std::to_string(nodes) + " nodes; this one waits as a spare"});
    return;
  }
  if (elastic_ && elastic_->look_for_members()) return take_in(agent);
  tell(name_of(agent) + " has come; all ranks are stopped and started again with it\n");
  nodes_change_ = true;
  stop_round(Order::Act::Terminate);
}

// Not to one that is lost.
void Conductor::post_to_node(int node, const Message& message) {
  const int agent = round_->plan.nodes.at(static_cast<std::size_t>(node)).agent;
  if (agents_.contains(agent)) outside_.post(agent, message);
}

// The loss of `node`: true if the ranks of the other nodes run on.
bool Conductor::goes_on_without(int node) {
  if (!elastic_ || round_->ended.contains(node)) return false;
  const bool had_no_ranks = joining_.erase(node) > 0;
  if (!had_no_ranks) {
    const std::size_t others = round_->plan.nodes.size() - without_.size() - joining_.size() - 1;
    const bool comes_again = observer_ && others > 0;  // started by the launcher
    const bool enough =
        options_.nodes.fixed_size() ? comes_again : static_cast<int>(others) >= options_.nodes.min_nodes;
    if (!enough || phase_ != Phase::Running || !elastic_->look_for_members()) return false;
    if (options_.nodes.fixed_size() && !elastic_->use_restart()) return false;
  }
  without_.insert(node);
  round_->ended[node] = {};
  elastic_->node_gone(node);
  if (phase_ != Phase::Running) return true;
  if (observer_) {
    outside_.post(*observer_, Verdict{round_->plan.round, false, 0, "the agent of that node is started again\n"});
  }
  for (const auto& [agent, hello] : agents_) {
    if (!node_of(agent)) admit_newcomer(agent);  // a spare
  }
  return true;
}

// Its ranks get places at the next step boundary, and it its plan once they have.
void Conductor::take_in(int agent) {
  RoundPlan& plan = round_->plan;
  const int node = static_cast<int>(plan.nodes.size());
  plan.nodes.push_back(place_of(agent, plan.world_size));
  joining_.insert(node);
  elastic_->node_comes(plan.nodes.back());
  tell(name_of(agent) + " has come; the others take its ranks in and run on\n");
}

}  // namespace tutti::tools
