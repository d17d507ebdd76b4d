#include <tutti/comm/base/error.h>
#include <tutti/tools/run/elastic/elastic_round.h>

#include <csignal>
#include <utility>

namespace tutti::tools {
namespace {

JobEnvironment job_of(const RoundPlan& plan, const ElasticRound::Options& options) {
  JobEnvironment job;
  job.world_size = plan.world_size;
  job.job_id = plan.job_id;
  job.job_secret = options.job_secret;
  job.restart_count = plan.restart_count;
  return job;
}

ElasticPlace place_of(const RoundPlan& plan, const ElasticRound::Options& options) {
  ElasticPlace place{{}, options.bind_address, "", true};
  for (const NodePlace& node : plan.nodes) place.ranks.push_back(node.nproc);
  return place;
}

std::unique_ptr<comm::TcpStoreServer> first_store(const RoundPlan& plan, const ElasticRound::Options& options) {
  comm::TcpStoreServerOptions server;
  server.bind_address = options.bind_address;
  server.job_id = plan.job_id;
  server.job_secret = options.job_secret;
  server.world_size = plan.world_size;
  return std::make_unique<comm::TcpStoreServer>(server);
}

}  // namespace

ElasticRound::ElasticRound(const RoundPlan& plan, const Options& options, ElasticJob::Say say)
    : round_(plan.round),
      job_(job_of(plan, options), place_of(plan, options), options.limits, first_store(plan, options), std::move(say)) {
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
    end = changed.as_they_are.ranks[i];
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

}  // namespace tutti::tools
