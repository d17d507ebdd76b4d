#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/store/tcp_store.h>
#include <tutti/tools/run/nodes/control_link.h>
#include <tutti/tools/run/nodes/scheduled_nodes.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <thread>

namespace tutti::tools {
namespace {

using comm::Deadline;
using std::chrono::milliseconds;

constexpr milliseconds kPause{100};
constexpr milliseconds kTry{1000};  // to reach what the file says, before looking at it again
constexpr milliseconds kReportAfter{5000};
constexpr milliseconds kAnswer{30'000};         // of mpiexec's PMI server
constexpr char kNonceKey[] = "agents/meeting";  // tells this coordinator from another job's on the same port

comm::TcpStore control_store(const CoordinatorAddress& at, const std::string& secret) {
  return comm::TcpStore({.host = at.host, .port = at.port, .job_id = kControlJob, .job_secret = secret},
                        Deadline::after(kTry));
}

/// Empty if the coordinator at `at` is the one that wrote this; else why not.
std::string objection(const CoordinatorAddress& at, const std::string& nonce, const std::string& secret) {
  try {
    comm::TcpStore store = control_store(at, secret);
    if (store.get(kNonceKey, Deadline::after(kTry)) == nonce) return {};
    return "another job's coordinator is there";
  } catch (const comm::Error& error) {
    return error.what();
  }
}

/// One look; nothing, and why in `state`, where the file does not lead to the coordinator that wrote it.
std::optional<CoordinatorAddress> look_for_coordinator(const comm::MeetingFile& meeting, const std::string& secret,
                                                       std::string& state) {
  const auto found = meeting.look();
  state = found ? found->state : "it is not there";
  if (!found || found->reading != comm::Reading::Whole) return std::nullopt;
  const comm::Announcement& announcement = found->announcement;
  for (const std::string& host : announcement.addresses) {
    const CoordinatorAddress at{host, announcement.port};
    const std::string problem = objection(at, announcement.nonce, secret);
    if (problem.empty()) return at;
    state = "the agent of node 0 (pid " + std::to_string(announcement.pid) + " on host " + announcement.host +
            ") is not at " + host + ": " + problem;
  }
  return std::nullopt;
}

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

PublishedCoordinator::PublishedCoordinator(const std::string& file, const std::string& job_secret, int nodes,
                                           const CoordinatorAddress& at)
    : file_(file), secret_(job_secret) {
  comm::World world;
  world.world_size = nodes;
  world.job_id = std::filesystem::path(file).stem().string();
  const comm::Announcement announcement = comm::own_announcement(world, {at.host}, at.port);
  nonce_ = announcement.nonce;
  control_store(at, job_secret).set(kNonceKey, nonce_, Deadline::after(kTry));
  comm::MeetingFile(file_, secret_).publish(announcement);
}

PublishedCoordinator::~PublishedCoordinator() { comm::MeetingFile(file_, secret_).withdraw(nonce_); }

std::optional<CoordinatorAddress> find_coordinator(const std::string& file, const std::string& job_secret,
                                                   milliseconds timeout, const std::function<bool()>& stopped,
                                                   const std::function<void(const std::string& line)>& say) {
  const comm::MeetingFile meeting(file, job_secret);
  const Deadline deadline = Deadline::after(timeout);
  const Deadline report = Deadline::after(kReportAfter);
  bool reported = false;
  for (;;) {
    std::string state;
    if (const auto at = look_for_coordinator(meeting, job_secret, state)) return at;
    if (stopped()) return std::nullopt;
    if (!reported && report.expired()) {
      reported = true;
      say("waiting for the agent of node 0 to publish its address in " + file + ": " + state);
    }
    if (deadline.expired())
      throw comm::Error(comm::ErrorCode::Timeout,
                        "the address of node 0's agent was not found in " + file + ": " + state +
                            ". Did it start, and is this folder the same on all nodes? If not, set TUTTI_MEET_DIR to "
                            "one that is, or give --rdzv-endpoint");
    std::this_thread::sleep_for(std::min(kPause, deadline.remaining()));
  }
}

}  // namespace tutti::tools
