#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/tools/run/nodes/control_link.h>
#include <tutti/tools/run/nodes/scheduled_nodes.h>

#include <charconv>
#include <filesystem>
#include <stdexcept>

namespace tutti::tools {
namespace {

using comm::Deadline;
using std::chrono::milliseconds;

constexpr milliseconds kOwnCall{1000};   // to the store in this very process
constexpr milliseconds kAnswer{30'000};  // of mpiexec's PMI server

}  // namespace

std::optional<ScheduledNode> find_scheduled_node(int nodes, const comm::Environment& environment) {
  const std::string chosen = environment("TUTTI_LAUNCHER").value_or("auto");
  if (chosen == "none" || chosen == "env") return std::nullopt;
  const auto place = comm::find_launcher(chosen, environment).place;
  if (!place) return std::nullopt;
  if (place->world_size != nodes)
    throw std::invalid_argument("--nnodes is " + std::to_string(nodes) + ", but " + place->source + " has " +
                                std::to_string(place->world_size) +
                                " processes: start one agent on each node (srun --ntasks-per-node 1, mpirun -N 1, "
                                "mpiexec -ppn 1)");
  std::string job = place->job;
  if (job.empty() && place->pmi_descriptor >= 0)
    job = comm::pmi_job_name(place->pmi_descriptor, Deadline::after(kAnswer));
  if (const auto id = environment("TUTTI_JOB_ID")) job += "-" + *id;
  if (job.empty())
    throw std::invalid_argument(place->source +
                                ": that does not tell one job from another; set TUTTI_JOB_ID, equal "
                                "on all nodes, or give --rdzv-endpoint");
  return ScheduledNode{.node_rank = place->rank,
                       .source = place->source,
                       .meeting_file = comm::meeting_path(job + "-agents", environment)};
}

void ask_scheduler(NodeArguments& nodes) {
  if (nodes.node_rank || !nodes.master_addr.empty() || !nodes.rdzv_endpoint.empty() || !nodes.rdzv_backend.empty())
    return;
  int count = 0;
  const char* const end = nodes.nnodes.data() + nodes.nnodes.size();
  const auto [parsed, status] = std::from_chars(nodes.nnodes.data(), end, count);
  if (status != std::errc() || parsed != end || count < 2) return;
  const auto node = find_scheduled_node(count, comm::process_environment());
  if (!node) return;
  nodes.node_rank = node->node_rank;
  nodes.meeting_file = node->meeting_file;
  comm::log(comm::LogLevel::Info, "node " + std::to_string(node->node_rank) + " of " + nodes.nnodes + " (" +
                                      node->source + "); the agents meet in " + node->meeting_file);
}

std::string address_to_coordinate_at() { return comm::reachable_addresses(true).front(); }

PublishedCoordinator::PublishedCoordinator(const NodeOptions& nodes, const std::string& job_secret)
    : file_(nodes.meeting_file), secret_(job_secret) {
  comm::World world;
  world.world_size = nodes.max_nodes;
  world.job_id = std::filesystem::path(file_).stem().string();
  const comm::Announcement announcement = comm::own_announcement(world, {nodes.host}, nodes.port);
  nonce_ = announcement.nonce;
  comm::TcpStore store({.host = nodes.host, .port = nodes.port, .job_id = kControlJob, .job_secret = secret_},
                       Deadline::after(kOwnCall));
  store.set(kNonceKey, nonce_, Deadline::after(kOwnCall));
  comm::MeetingFile(file_, secret_).publish(announcement);
}

PublishedCoordinator::~PublishedCoordinator() { comm::MeetingFile(file_, secret_).withdraw(nonce_); }

}  // namespace tutti::tools
