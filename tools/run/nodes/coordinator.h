// Coordinator: serves the control store and decides, alone, what the agents of a job do.
//
// One thread reads the inbox, looks after heartbeats and posts to the log. Each round gets a fresh store server for the
// ranks. What it decides stands in conductor.h. Thread-safety: methods may be called from any thread. Signals must be
// blocked before the constructor runs.
#pragma once

#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/nodes/messages.h>
#include <tutti/tools/run/nodes/node_options.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

struct CoordinatorOptions {
  NodeOptions nodes;
  std::string bind_address;  // of the control store and the rounds' stores
  std::string job_secret;    // of both
  Hello own;                 // settings that all agents must share; host and pid for texts
  std::string about;         // where agents meet and whence that is known, for the table
  LaunchOptions launch{};    // restarts, the rounds' stores, and whether lost ranks are replaced within a round
};

/// The settings that all agents of a job must share, with their values: options.nodes must be set.
std::vector<std::pair<std::string, std::string>> agreed_settings(const LaunchOptions& options);

class Coordinator {
 public:
  /// Binds nodes.port (0: a free one) and begins. Throws as TcpStoreServer does.
  explicit Coordinator(const CoordinatorOptions& options);
  /// Waits a moment for the agents to leave, then stops serving.
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The address to bind for `host`. A name that stands for this host itself often resolves to a loopback address here
/// (127.0.1.1 on Debian), where no other host can reach it: then all interfaces, "".
std::string coordinator_bind_address(const std::string& host);

}  // namespace tutti::tools
