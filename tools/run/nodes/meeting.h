// Meeting: how an agent gets to the control store: it serves it, or finds who does.
//
// Thread-safety: the agent's main thread.
#pragma once

#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/nodes/control_link.h>
#include <tutti/tools/run/nodes/coordinator.h>
#include <tutti/tools/run/nodes/scheduled_nodes.h>
#include <tutti/tools/run/reserved_port.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

class Meeting {
 public:
  /// `host`: this node's name, for people. options.nodes must be set.
  Meeting(const LaunchOptions& options, std::string host);

  /// Becomes the coordinator, where that is this agent's part. Throws comm::Error.
  void begin();

  /// A connection on its way to the control store, with this agent's hello.
  std::unique_ptr<ControlLink> link() const;

  bool coordinates() const { return coordinator_ != nullptr; }
  const std::string& secret() const { return secret_; }
  std::string place() const;  // "host:port", or in which file that stands
  /// Why this agent does not coordinate, where it has tried to; else "".
  const std::string& obstacle() const { return obstacle_; }

 private:
  Hello hello() const;
  void start_coordinator();
  std::vector<std::string> control_hosts() const;
  std::string about() const;

  const LaunchOptions& options_;
  NodeOptions nodes_;  // with the place that was found
  const std::string host_;
  std::string secret_;
  std::optional<ReservedPort> reserved_;
  std::unique_ptr<Coordinator> coordinator_;
  std::string obstacle_;
  bool everywhere_ = false;  // the coordinator listens on all interfaces
  std::optional<PublishedCoordinator> published_;
};

/// Of the coordinator of a job that `launch` describes, at `nodes`.
CoordinatorOptions coordinator_options(const LaunchOptions& launch, const NodeOptions& nodes, std::string bind_address,
                                       std::string secret, Hello own, std::string about);

/// The settings that all agents of a job must share, with their values: options.nodes must be set.
std::vector<std::pair<std::string, std::string>> agreed_settings(const LaunchOptions& options);

}  // namespace tutti::tools
