#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/elastic/elastic_round.h>
#include <tutti/tools/run/strays.h>

#include <algorithm>
#include <csignal>
#include <utility>

namespace tutti::tools {
namespace {

JobEnvironment job_of(const RoundPlan& plan, const std::string& job_secret) {
  JobEnvironment job;
  job.world_size = plan.world_size;
  job.job_id = plan.job_id;
  job.job_secret = job_secret;
  job.restart_count = plan.restart_count;
  return job;
}

ElasticPlace place_of(const RoundPlan& plan, const std::string& bind_address) {
  ElasticPlace place{{}, bind_address, "", true};
  for (const NodePlace& node : plan.nodes) place.ranks.push_back(node.nproc);
  return place;
}

}  // namespace

ElasticRound::ElasticRound(const RoundPlan& plan, const std::string& bind_address, const std::string& job_secret,
                           const ElasticLimits& limits, ElasticJob::Say say)
    : round_(plan.round), job_(job_of(plan, job_secret), place_of(plan, bind_address), limits, std::move(say)) {
  for (std::size_t node = 0; node < plan.nodes.size(); ++node) {
    const NodePlace& place = plan.nodes[node];
    nodes_[static_cast<int>(node)] = place;
    for (int slot = 0; slot < place.nproc; ++slot) add_process(static_cast<int>(node), place.first_rank + slot);
  }
}

// The agent will tell its process id, and how it fares.
void ElasticRound::add_process(int node, int rank) {
  std::vector<std::size_t>& of_node = of_node_[node];
  of_node.push_back(ends_.size());
  processes_.push_back({node, of_node.size() - 1});
  RankEnd end;
  end.rank = rank;
  end.host = nodes_[node].host;
  end.started = RankEnd::Clock::now();
  ends_.push_back(end);
}

void ElasticRound::changed(int node, const RanksChanged& changed) {
  const std::vector<std::size_t>& of_node = of_node_[node];
  for (std::size_t i = 0; i < changed.places.size(); ++i) {
    if (changed.places[i] >= of_node.size()) {
      throw comm::Error(comm::ErrorCode::Protocol,
                        "node " + std::to_string(node) + " tells of its process " + std::to_string(changed.places[i]) +
                            ", but has been told to start " + std::to_string(of_node.size()));
    }
    RankEnd& end = ends_[of_node[changed.places[i]]];
    const std::set<int> sent = end.sent;
    const bool replaced = end.replaced;
    end = changed.ranks[i];
    end.sent.insert(sent.begin(), sent.end());
    end.replaced = replaced;
  }
}

void ElasticRound::node_comes(int node, const NodePlace& place) {
  nodes_[node] = place;
  job_.node_comes(node, place.nproc);
}

ElasticRound::Step ElasticRound::look(RankEnd::Clock::time_point now) {
  const RescuePlan plan = job_.look(ends_, now);
  Step step;
  step.give_up = plan.kind == RescuePlan::Kind::GiveUp;
  for (const std::size_t index : plan.lost) {
    ends_[index].replaced = true;
    step.orders[processes_[index].node].lost.push_back(processes_[index].place);
  }
  for (const std::size_t index : plan.frozen) {
    ends_[index].sent.insert(SIGKILL);
    step.orders[processes_[index].node].frozen.push_back(processes_[index].place);
  }
  for (const RescuePlan::Start& start : plan.starts) {
    add_process(start.node, nodes_[start.node].first_rank + start.local_rank);
    step.orders[start.node].starts.push_back(start);
  }
  int rank = job_.world_size();  // joined nodes' ranks are the last ones
  for (const int node : plan.joined) rank -= nodes_[node].nproc;
  for (const int node : plan.joined) {
    step.joined.emplace_back(node, rank);
    nodes_[node].first_rank = rank;
    for (int slot = 0; slot < nodes_[node].nproc; ++slot) add_process(node, rank++);
  }
  for (auto& [node, order] : step.orders) order.round = round_;
  return step;
}

RemoteRescuer::RemoteRescuer(const RoundPlan& plan, int node, const std::string& control_host, Post post)
    : round_(plan.round),
      node_(node),
      control_(comm::host_and_port(control_host, plan.control_port)),
      post_(std::move(post)) {}

std::vector<std::string> RemoteRescuer::environment(int local_rank) const {
  return {"TUTTI_CONTROL=" + control_, "TUTTI_WORKER=" + comm::WorkerId{.node = node_, .slot = local_rank}.text()};
}

void RemoteRescuer::tell_changes(std::span<const RankEnd> ranks) {
  RanksChanged changed;
  changed.round = round_;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    const bool is_new = place == told_.size();
    if (is_new) told_.emplace_back();
    const RankEnd& rank = ranks[place];
    const Known known{rank.running, rank.running && is_stopped(rank.pid)};
    if (!is_new && std::exchange(told_[place], known) == known) continue;
    told_[place] = known;
    changed.places.push_back(place);
    changed.ranks.push_back(rank);
    changed.ranks.back().frozen = known.frozen;
  }
  if (!changed.places.empty()) post_(std::move(changed));
}

RescuePlan RemoteRescuer::look(std::span<const RankEnd> ranks, RankEnd::Clock::time_point) {
  tell_changes(ranks);
  RescuePlan plan;
  for (; !orders_.empty(); orders_.pop_front()) {
    RescueOrder& order = orders_.front();
    plan.kind = RescuePlan::Kind::GoOn;
    for (const std::size_t place : order.lost) {
      if (place < ranks.size()) plan.lost.push_back(place);
    }
    for (const std::size_t place : order.frozen) {
      if (place < ranks.size()) plan.frozen.push_back(place);
    }
    for (RescuePlan::Start& start : order.starts) {
      start.node = node_;
      start.environment.push_back("TUTTI_CONTROL=" + control_);
      plan.starts.push_back(std::move(start));
    }
  }
  waits_ = false;
  for (std::size_t place = 0; place < ranks.size(); ++place) {
    const RankEnd& rank = ranks[place];
    const bool dealt_with = std::find(plan.lost.begin(), plan.lost.end(), place) != plan.lost.end();
    waits_ = waits_ || (!rank.running && rank.code != 0 && !rank.replaced && !dealt_with);
  }
  return plan;
}

}  // namespace tutti::tools
