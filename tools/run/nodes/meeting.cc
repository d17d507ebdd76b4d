#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/run/nodes/meeting.h>
#include <tutti/tools/run/rank_environment.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace tutti::tools {
namespace {

constexpr char kAgreementVersion[] = "5";  // of the messages between agents

}  // namespace

Meeting::Meeting(const LaunchOptions& options, std::string host)
    : options_(options), nodes_(*options.nodes), host_(std::move(host)) {}

void Meeting::begin() {
  if (!options_.store) reserved_.emplace("0.0.0.0");
  secret_ = comm::job_secret();
  start_coordinator();
}

std::unique_ptr<ControlLink> Meeting::link() const {
  NodeOptions nodes = nodes_;
  if (coordinates()) nodes.meeting_file.clear();  // this agent knows its own address
  return std::make_unique<ControlLink>(nodes, secret_, hello(), control_hosts());
}

std::string Meeting::place() const {
  if (!nodes_.meeting_file.empty() && !coordinates())
    return "the address that the agent of node 0 publishes in " + nodes_.meeting_file;
  return nodes_.host + ":" + std::to_string(nodes_.port);
}

// A scheduler's coordinator shows its port once it has one.
std::string Meeting::about() const {
  std::string how = nodes_.is_static() ? "--master-addr" : "--rdzv-endpoint";
  if (!nodes_.meeting_file.empty()) how = "shown to the others in " + nodes_.meeting_file;
  const bool from_environment = std::getenv("TUTTI_JOB_SECRET") != nullptr;
  return "agents meet at " + (nodes_.port == 0 ? nodes_.host : place()) + " (" + how + "), secret from " +
         (from_environment ? "TUTTI_JOB_SECRET" : "the home folder");
}

Hello Meeting::hello() const {
  Hello hello;
  hello.node_rank = nodes_.node_rank;
  hello.is_coordinators = coordinates();
  hello.host = host_;
  hello.pid = ::getpid();
  hello.nproc = options_.nproc;
  hello.cores = available_cpus();
  hello.reserved_port = reserved_ ? reserved_->port() : std::uint16_t{0};
  hello.settings = agreed_settings(options_);
  return hello;
}

void Meeting::start_coordinator() {
  if (nodes_.remote || (nodes_.is_static() && *nodes_.node_rank != 0)) return;
  if (!nodes_.meeting_file.empty()) nodes_.host = address_to_coordinate_at();
  const CoordinatorOptions options =
      coordinator_options(options_, nodes_, coordinator_bind_address(nodes_.host), secret_, hello(), about());
  try {
    coordinator_ = std::make_unique<Coordinator>(options);
    everywhere_ = options.bind_address.empty();
  } catch (const comm::Error& error) {
    if (nodes_.is_static())
      throw comm::Error(error.code(),
                        std::string(error.what()) + " (the agent with --node-rank 0 serves --master-addr)");
    obstacle_ = error.what();  // another agent is; or whoever holds the port will turn out to be a stranger
    return;
  }
  nodes_.port = coordinator_->port();
  if (!nodes_.meeting_file.empty()) published_.emplace(nodes_, secret_);
}

// A name of this very host may stand for an address that only this host has.
std::vector<std::string> Meeting::control_hosts() const {
  if (nodes_.remote) return nodes_.addresses;
  std::vector<std::string> hosts;
  const std::string outward = everywhere_ ? comm::default_route_address() : "";
  if (!outward.empty()) hosts.push_back(outward);
  hosts.push_back(nodes_.host);
  return hosts;
}

CoordinatorOptions coordinator_options(const LaunchOptions& launch, const NodeOptions& nodes, std::string bind_address,
                                       std::string secret, Hello own, std::string about) {
  return {.nodes = nodes,
          .bind_address = std::move(bind_address),
          .job_secret = std::move(secret),
          .own = std::move(own),
          .about = std::move(about),
          .job_id = nodes.run_id.empty() ? new_job_id() : nodes.run_id,
          .max_restarts = launch.max_restarts,
          .store = launch.store,
          .elastic = launch.elastic};
}

// The program's arguments may differ from node to node, its name may not.
std::vector<std::pair<std::string, std::string>> agreed_settings(const LaunchOptions& options) {
  const NodeOptions& nodes = *options.nodes;
  const std::string most = nodes.fixed_size() ? "" : ":" + std::to_string(nodes.max_nodes);
  return {
      {"tutti's version of this conversation", kAgreementVersion},
      {"--rdzv-id", nodes.run_id},
      {"--nnodes", std::to_string(nodes.min_nodes) + most},
      {"the rendezvous", nodes.is_static() ? "static (--node-rank)" : "dynamic (--rdzv-endpoint)"},
      {"--max-restarts", std::to_string(options.max_restarts)},
      {"--no-store", options.store ? "not given" : "given"},
      {"--elastic", options.elastic ? "given" : "not given"},
      {"the program", std::filesystem::path(options.command.front()).filename().string()},
  };
}

}  // namespace tutti::tools
