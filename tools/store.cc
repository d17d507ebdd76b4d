// `tutti store`: a store server that stands by itself, for jobs whose ranks are started by hand and to look at.

#include <poll.h>
#include <tutti/comm/store/tcp_store_server.h>
#include <tutti/comm/store/torch/torch_store_server.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/commands.h>
#include <tutti/tools/run/signals.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

namespace tutti::tools {
namespace {

struct StoreArguments {
  std::string bind = "127.0.0.1";
  std::uint16_t port = 0;
  int world_size = -1;
  std::string job_id;
  bool torch = false;
};

std::string shown_host(const StoreArguments& arguments) {
  const bool everywhere = arguments.bind.empty() || arguments.bind == "::" || arguments.bind == "0.0.0.0";
  return everywhere ? "<an address of this host>" : arguments.bind;
}

std::string own_job_id(const StoreArguments& arguments) {
  if (!arguments.job_id.empty()) return arguments.job_id;
  const char* environment = std::getenv("TUTTI_JOB_ID");
  return environment != nullptr ? environment : "default";
}

/// Returns the signal that ended it.
int serve_until_a_signal(SignalGuard& signals) {
  for (;;) {
    pollfd entry{signals.fd(), POLLIN, 0};
    if (::poll(&entry, 1, -1) < 0) continue;
    while (const std::optional<int> signal = signals.next())
      if (asks_to_end(*signal)) return *signal;
  }
}

int serve(const StoreArguments& arguments) {
  SignalGuard signals;
  std::unique_ptr<comm::TcpStoreServer> own;
  std::unique_ptr<comm::TorchStoreServer> torch;
  if (arguments.torch) {
    torch = std::make_unique<comm::TorchStoreServer>(
        comm::TorchStoreServerOptions{.bind_address = arguments.bind, .port = arguments.port});
    std::cout << "store for PyTorch: MASTER_ADDR=" << shown_host(arguments) << " MASTER_PORT=" << torch->port()
              << " TORCHELASTIC_USE_AGENT_STORE=True\nIt knows no secret: who reaches this port may read and write "
                 "every key."
              << std::endl;
  } else {
    const std::string job_id = own_job_id(arguments);
    own = std::make_unique<comm::TcpStoreServer>(comm::TcpStoreServerOptions{.bind_address = arguments.bind,
                                                                             .port = arguments.port,
                                                                             .job_id = job_id,
                                                                             .job_secret = comm::job_secret(),
                                                                             .world_size = arguments.world_size});
    const bool given = std::getenv("TUTTI_JOB_SECRET") != nullptr;
    std::cout << "store: TUTTI_STORE=tcp://" << comm::host_and_port(shown_host(arguments), own->port())
              << " TORCHELASTIC_USE_AGENT_STORE=True TUTTI_JOB_ID='" << job_id << "'\nThe secret is that of "
              << (given ? "TUTTI_JOB_SECRET." : "~/.config/tutti/job_secret.") << std::endl;
  }
  const int signal = serve_until_a_signal(signals);
  std::cout << "ended by " << signal_name(signal) << std::endl;
  return 0;
}

}  // namespace

void add_store_command(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("store", "A store server by itself, for ranks that are started by hand");
  command->footer("It prints the variables its ranks need, and serves until a signal (Ctrl-C) ends it.");
  const auto arguments = std::make_shared<StoreArguments>();
  command->add_option("--bind", arguments->bind, "Address to listen on; :: means all")->capture_default_str();
  command->add_option("--port", arguments->port, "Port; 0: a free one")->capture_default_str();
  command->add_option("--job-id", arguments->job_id, "Ranks of this job only [TUTTI_JOB_ID, else \"default\"]");
  command->add_option("--world-size", arguments->world_size, "Ranks of worlds of this size only [any]")
      ->check(CLI::PositiveNumber);
  command->add_flag("--torch", arguments->torch, "Serve PyTorch's TCPStore clients instead; has no secret")
      ->excludes("--job-id")
      ->excludes("--world-size");
  command->callback([arguments, &status] { status = status_of("tutti store", [&] { return serve(*arguments); }); });
}

}  // namespace tutti::tools
