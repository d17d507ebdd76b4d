#include <tutti/tools/run/round_stores.h>

#include <utility>

namespace tutti::tools {

RoundStores::RoundStores(const LaunchOptions& launch, const std::string& address, std::uint16_t master_port,
                         const std::string& secret, RoundPlan& plan, ElasticJob::Say say) {
  if (!launch.store) return;
  torch_ = std::make_unique<comm::TorchStoreServer>(
      comm::TorchStoreServerOptions{.bind_address = address, .port = master_port});
  plan.master_port = torch_->port();
  if (!launch.elastic) {
    server_ = std::make_unique<comm::TcpStoreServer>(comm::TcpStoreServerOptions{
        .bind_address = address, .job_id = plan.job_id, .job_secret = secret, .world_size = plan.world_size});
    plan.store_port = server_->port();
    return;
  }
  ElasticLimits limits = *launch.elastic;
  limits.max_restarts = launch.max_restarts - plan.restart_count;
  elastic_ = std::make_unique<ElasticJob>(plan, address, secret, limits, std::move(say));
  plan.store_port = elastic_->store_port();
  plan.control_port = elastic_->control_port();
}

JobEnvironment environment_of(const RoundPlan& plan, int node, const std::string& address, const std::string& secret,
                              int max_restarts) {
  const NodePlace& place = plan.nodes.at(static_cast<std::size_t>(node));
  return {.world_size = plan.world_size,
          .node = node,
          .node_count = static_cast<int>(plan.nodes.size()),
          .first_rank = place.first_rank,
          .local_size = place.nproc,
          .host = place.host,
          .master_addr = plan.master_addr.empty() ? address : plan.master_addr,
          .master_port = plan.master_port,
          .store_port = plan.store_port,
          .control_port = plan.control_port,
          .job_id = plan.job_id,
          .job_secret = secret,
          .restart_count = plan.restart_count,
          .max_restarts = max_restarts};
}

}  // namespace tutti::tools
