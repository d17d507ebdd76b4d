#include <tutti/tools/run/nodes/formation.h>

#include <algorithm>

namespace tutti::tools {
namespace {

// After the first round those who were in it are there at once; others are let in whenever they come.
constexpr std::chrono::milliseconds kLaterCall{1000};

std::string who(const Hello& hello) { return "pid " + std::to_string(hello.pid) + " on " + hello.host; }

}  // namespace

std::string Formation::objection(const Hello& hello) const {
  for (const auto& [name, value] : own_.settings) {
    const auto theirs = std::find_if(hello.settings.begin(), hello.settings.end(),
                                     [&, &setting = name](const auto& s) { return s.first == setting; });
    const std::string found = theirs == hello.settings.end() ? "nothing" : "'" + theirs->second + "'";
    if (found != "'" + value + "'")
      return "the nodes disagree on " + name + ": the coordinator (" + who(own_) + ") has '" + value +
             "', this node (" + who(hello) + ") has " + found;
  }
  if (!hello.node_rank) return "";
  if (*hello.node_rank < 0 || *hello.node_rank >= options_.max_nodes)
    return "--node-rank " + std::to_string(*hello.node_rank) + " does not exist among " +
           std::to_string(options_.max_nodes) + " nodes";
  for (const auto& [agent, other] : agents_) {
    if (other.node_rank == hello.node_rank)
      return "--node-rank " + std::to_string(*hello.node_rank) + " is taken: " + who(other) + " has it, and so has " +
             who(hello);
  }
  return "";
}

void Formation::begin(Clock::time_point now) {
  started_ = now;
  enough_since_.reset();
}

std::optional<std::vector<int>> Formation::static_order() const {
  std::vector<int> order(static_cast<std::size_t>(options_.max_nodes), -1);
  for (const auto& [agent, hello] : agents_) {
    if (hello.node_rank) order.at(static_cast<std::size_t>(*hello.node_rank)) = agent;
  }
  if (std::find(order.begin(), order.end(), -1) != order.end()) return std::nullopt;
  return order;
}

std::optional<std::vector<int>> Formation::ready(Clock::time_point now, const std::vector<int>& keep_order) {
  if (options_.is_static()) return static_order();
  const int here = static_cast<int>(agents_.size());
  if (here < options_.min_nodes) {
    enough_since_.reset();
    return std::nullopt;
  }
  if (!enough_since_) enough_since_ = now;
  const auto patience = rounds_ == 0 ? options_.last_call : std::min<Clock::duration>(options_.last_call, kLaterCall);
  if (here < options_.max_nodes && now < *enough_since_ + patience) return std::nullopt;

  std::vector<int> order;
  for (const auto& [agent, hello] : agents_) order.push_back(agent);
  const auto place = [&](int agent) {
    const auto found = std::find(keep_order.begin(), keep_order.end(), agent);
    return std::pair(!agents_.at(agent).is_coordinators, found - keep_order.begin());
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
  if (here > options_.max_nodes) order.resize(static_cast<std::size_t>(options_.max_nodes));
  ++rounds_;
  return order;
}

std::string Formation::progress() const {
  const std::string least = std::to_string(options_.min_nodes);
  std::string text = std::to_string(agents_.size()) + " of " + least +
                     (options_.fixed_size() ? "" : " to " + std::to_string(options_.max_nodes)) + " nodes are here";
  if (!options_.is_static()) return text;
  std::string missing;
  for (int node = 0; node < options_.max_nodes; ++node) {
    const bool here =
        std::any_of(agents_.begin(), agents_.end(), [&](const auto& agent) { return agent.second.node_rank == node; });
    if (!here) missing += (missing.empty() ? "" : ", ") + std::to_string(node);
  }
  return missing.empty() ? text : text + "; waiting for --node-rank " + missing;
}

}  // namespace tutti::tools
