#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/run/nodes/meeting.h>
#include <tutti/tools/run/ranges.h>
#include <tutti/tools/run/rank_environment.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace tutti::tools {
namespace {

constexpr std::chrono::milliseconds kPublishing{1000};   // to the store in this very process
constexpr std::chrono::milliseconds kPmiAnswer{30'000};  // of mpiexec's PMI server

// What tells the agents of this job step from those of others on the same file system.
std::string job_of(const comm::LaunchedPlace& place, const comm::Environment& environment) {
  std::string job = place.job;
  if (job.empty() && place.pmi_descriptor >= 0)
    job = comm::pmi_job_name(place.pmi_descriptor, comm::Deadline::after(kPmiAnswer));
  if (const auto id = environment("TUTTI_JOB_ID")) job += "-" + *id;
  if (job.empty())
    throw std::invalid_argument(place.source +
                                ": that does not tell one job from another; set TUTTI_JOB_ID, equal "
                                "on all nodes, or give --rdzv-endpoint");
  return job;
}

}  // namespace

Meeting::Meeting(const LaunchOptions& options, std::string host)
    : options_(options), nodes_(*options.nodes), host_(std::move(host)) {}

Meeting::~Meeting() {
  if (!nonce_.empty()) comm::MeetingFile(nodes_.meeting_file, secret_).withdraw(nonce_);
}

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
  if (!nodes_.meeting_file.empty()) nodes_.host = comm::reachable_addresses(true).front();
  const CoordinatorOptions options{.nodes = nodes_,
                                   .bind_address = coordinator_bind_address(nodes_.host),
                                   .job_secret = secret_,
                                   .own = hello(),
                                   .about = about(),
                                   .launch = options_};
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
  if (!nodes_.meeting_file.empty()) publish();
}

// Shows the coordinator's address to the other agents as long as this agent lives.
void Meeting::publish() {
  comm::World world;
  world.world_size = nodes_.max_nodes;
  world.job_id = std::filesystem::path(nodes_.meeting_file).stem().string();
  const comm::Announcement announcement = comm::own_announcement(world, {nodes_.host}, nodes_.port);
  const comm::Deadline soon = comm::Deadline::after(kPublishing);
  comm::TcpStore store({.host = nodes_.host, .port = nodes_.port, .job_id = kControlJob, .job_secret = secret_}, soon);
  store.set(kNonceKey, announcement.nonce, soon);
  comm::MeetingFile(nodes_.meeting_file, secret_).publish(announcement);
  nonce_ = announcement.nonce;
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

void ask_scheduler(NodeArguments& nodes, const comm::Environment& environment) {
  if (nodes.node_rank || !nodes.master_addr.empty() || !nodes.rdzv_endpoint.empty() || !nodes.rdzv_backend.empty())
    return;
  const std::optional<int> count = parse_number(nodes.nnodes);
  const std::string chosen = environment("TUTTI_LAUNCHER").value_or("auto");
  if (!count || *count < 2 || chosen == "none" || chosen == "env") return;
  const auto place = comm::find_launcher(chosen, environment).place;
  if (!place) return;
  if (place->world_size != *count)
    throw std::invalid_argument("--nnodes is " + nodes.nnodes + ", but " + place->source + " has " +
                                std::to_string(place->world_size) +
                                " processes: start one agent on each node (srun --ntasks-per-node 1, mpirun -N 1, "
                                "mpiexec -ppn 1)");
  nodes.node_rank = place->rank;
  nodes.meeting_file = comm::meeting_path(job_of(*place, environment) + "-agents", environment);
  comm::log(comm::LogLevel::Info, "node " + std::to_string(place->rank) + " of " + nodes.nnodes + " (" + place->source +
                                      "); the agents meet in " + nodes.meeting_file);
}

}  // namespace tutti::tools
