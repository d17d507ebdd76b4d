// The stores that are served for the ranks of one start of a job, whether it has one node or several.
#pragma once

#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/store/torch/torch_store_server.h>
#include <tutti/tools/run/elastic/elastic_job.h>
#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/nodes/messages.h>

#include <cstdint>
#include <memory>
#include <string>

namespace tutti::tools {

/// Each start of the ranks gets servers of its own: keys of an earlier one must not be seen.
class RoundStores {
 public:
  /// Serves at `address` what `launch` asks for, and puts the ports into `plan`, which is complete but for them.
  /// `master_port`: of the server for PyTorch's clients, as torchrun's agent serves it; 0: a free one. Throws as the
  /// servers do.
  RoundStores(const LaunchOptions& launch, const std::string& address, std::uint16_t master_port,
              const std::string& secret, RoundPlan& plan, ElasticJob::Say say);

  /// What decides while an elastic job's ranks run; else null.
  ElasticJob* elastic() const { return elastic_.get(); }
  /// Tutti's store of a job that is not elastic; null without one.
  comm::TcpStoreServer* server() const { return server_.get(); }

 private:
  std::unique_ptr<comm::TorchStoreServer> torch_;
  std::unique_ptr<comm::TcpStoreServer> server_;
  std::unique_ptr<ElasticJob> elastic_;
};

}  // namespace tutti::tools
