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

}  // namespace tutti::tools
