#include <tutti/comm/base/error.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/bootstrap/launchers/launchers.h>
#include <tutti/comm/bootstrap/meeting_place.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/bootstrap/world_settings.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/comm/wire/job_secret.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace tutti::comm {
namespace {

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

/// `one_host`: all ranks are on the master's own host, so local and global places are the same.
void fill_local_place(World& world, const WorldSettings& settings, std::optional<int> local_rank,
                      std::optional<int> local_world_size, bool one_host) {
  world.local_rank = local_rank.value_or(one_host ? world.rank : 0);
  world.local_world_size = local_world_size.value_or(one_host ? world.world_size : world.local_rank + 1);
  if (world.local_rank >= world.local_world_size) {
    refuse("LOCAL_RANK ", world.local_rank, " does not exist among ", world.local_world_size,
           " local ranks (ranks count from 0); ", world.detected_from, "; ", settings.listing());
  }
  if (world.local_world_size > world.world_size) {
    refuse("LOCAL_WORLD_SIZE ", world.local_world_size, " is more than WORLD_SIZE ", world.world_size, "; ",
           world.detected_from, "; ", settings.listing());
  }
}

/// Where TUTTI_STORE says that the ranks meet; false without it. It wins over MASTER_ADDR and MASTER_PORT, where a
/// launcher may serve PyTorch's store.
bool fill_store(World& world, const WorldSettings& settings) {
  constexpr std::string_view kFile = "file://", kServer = "tcp://";
  const auto store = settings.text("TUTTI_STORE");
  if (!store) return false;
  if (store->starts_with(std::string(kFile) + "/") && store->size() > kFile.size() + 1) {
    world.store_file = store->substr(kFile.size());
    return true;
  }
  const auto server = store->starts_with(kServer) ? parse_host_and_port(store->substr(kServer.size())) : std::nullopt;
  if (!server)
    refuse(
        "TUTTI_STORE=", shown_value(*store),
        " names no place for the ranks to meet: write file:///PATH, a file that all ranks can reach, or a folder, or "
        "tcp://HOST:PORT (without TUTTI_STORE they meet at MASTER_ADDR)");
  std::tie(world.master_addr, world.master_port) = *server;
  return true;
}

/// MASTER_ADDR without the brackets that an IPv6 address wears before a port. Refuses one that has a port.
std::string host_of(const std::string& addr) {
  const std::size_t colon = addr.rfind(':');
  const bool bracketed = addr.front() == '[';
  if (bracketed && addr.back() == ']') return addr.substr(1, addr.size() - 2);
  if (colon == std::string::npos || (!bracketed && addr.find(':') != colon)) return addr;
  refuse("MASTER_ADDR=", shown_value(addr), " holds a port; set MASTER_ADDR=", addr.substr(0, colon),
         " and MASTER_PORT=", addr.substr(colon + 1));
}

/// MASTER_ADDR and MASTER_PORT, both or none of them; false if none.
bool fill_master(World& world, const WorldSettings& settings) {
  const auto addr = settings.text("MASTER_ADDR");
  const auto port = settings.number("MASTER_PORT", 1, 65535);
  if (!addr && !port) return false;
  settings.demand({"MASTER_ADDR", "MASTER_PORT"},
                  "the address where " + std::to_string(world.world_size) + " ranks are to meet is only half known");
  world.master_addr = host_of(*addr);
  world.master_port = static_cast<std::uint16_t>(*port);
  return true;
}

bool launcher_serves(const WorldSettings& settings) {
  return settings.environment()("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
}

/// torchrun's agent serves PyTorch's store at MASTER_ADDR. Its place, or on a loopback address its host, tells one job
/// from another; each start of the workers has a name of its own.
std::string job_of_torchrun(const World& world, const Environment& environment) {
  std::string name = "torchrun-" + (is_loopback(world.master_addr) ? host_identity() : world.master_addr) + "-" +
                     std::to_string(world.master_port);
  for (const char* variable : {"TUTTI_JOB_ID", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"})
    name += "-" + environment(variable).value_or("");
  return name;
}

/// The job's name where RANK and WORLD_SIZE were set by hand, with TUTTI_MEET_DIR to meet in.
std::string job_told_by_hand(const WorldSettings& settings) {
  for (const char* name : {"TUTTI_JOB_ID", "SLURM_JOB_ID", "PBS_JOBID"})
    if (const auto id = settings.text(name)) return std::string(name) + "-" + *id;
  refuse(
      "ranks that are to meet in TUTTI_MEET_DIR need a name of their job, which no other job has, equal on all of "
      "them: set TUTTI_JOB_ID");
}

/// Where the ranks meet whose places RANK and WORLD_SIZE say.
void fill_meeting(World& world, const WorldSettings& settings) {
  const Environment& environment = settings.environment();
  if (fill_store(world, settings)) return;
  if (fill_master(world, settings)) {
    if (launcher_serves(settings)) world.meeting_file = meeting_path(job_of_torchrun(world, environment), environment);
    return;
  }
  if (!environment("TUTTI_MEET_DIR"))
    settings.demand({"MASTER_ADDR", "MASTER_PORT"},
                    "the address where " + std::to_string(world.world_size) + " ranks are to meet is not known");
  world.meeting_file = meeting_path(job_told_by_hand(settings), environment);
}

void fill_place(World& world, const WorldSettings& settings) {
  settings.demand({"RANK", "WORLD_SIZE"}, "this rank's place in its job is only half known");
  world.rank = *settings.number("RANK", 0, kMostLaunchedRanks - 1);
  world.world_size = *settings.number("WORLD_SIZE", 1, kMostLaunchedRanks);
  if (world.rank >= world.world_size) {
    refuse("RANK ", world.rank, " does not exist in a world of WORLD_SIZE ", world.world_size,
           " (ranks count from 0); ", settings.listing());
  }
  if (world.world_size > 1) fill_meeting(world, settings);
  fill_local_place(world, settings, settings.number("LOCAL_RANK", 0, kMostLaunchedRanks - 1),
                   settings.number("LOCAL_WORLD_SIZE", 1, kMostLaunchedRanks),
                   world.world_size == 1 || is_loopback(world.master_addr));
}

/// The place that a launcher gave; where its ranks meet, unless the caller says so.
void fill_launched(World& world, const LaunchedPlace& place, const WorldSettings& settings) {
  world.detected_from = place.source;
  world.rank = place.rank;
  world.world_size = place.world_size;
  world.cpus_per_rank = place.cpus_per_rank;
  world.job_id = place.job.empty() ? world.job_id : place.job;
  fill_local_place(world, settings, place.local_rank, place.local_world_size, world.world_size == 1);
  if (world.world_size == 1) return;
  if (fill_store(world, settings)) return;
  if (fill_master(world, settings)) {
    world.detected_from += "; MASTER_ADDR=" + shown_value(world.master_addr) +
                           ", MASTER_PORT=" + std::to_string(world.master_port) + " as they are set";
    return;
  }
  const std::string id = settings.text("TUTTI_JOB_ID").value_or("");
  const bool named_by_hand = !id.empty() && settings.environment()("TUTTI_MEET_DIR");
  if (place.job.empty() && place.pmi_descriptor >= 0 && !named_by_hand) {
    world.pmi_descriptor = place.pmi_descriptor;
    world.meeting_file = meeting_folder(settings.environment());
    return;
  }
  if (place.job.empty() && id.empty())
    refuse(place.source,
           ": that does not tell one job from another, and the ranks meet under their job's name; set "
           "TUTTI_JOB_ID, equal on all ranks, to what no other job has, or MASTER_ADDR and MASTER_PORT");
  world.meeting_file =
      meeting_path(place.job + (place.job.empty() || id.empty() ? "" : "-") + id, settings.environment());
}

std::string chosen_launcher(const WorldOptions& options, const WorldSettings& settings) {
  const std::string from_environment = settings.environment()("TUTTI_LAUNCHER").value_or("");
  std::string chosen = options.launcher.value_or("");
  if (!chosen.empty() && !from_environment.empty() && chosen != from_environment)
    refuse("the option for the launcher is ", shown_value(chosen),
           ", but the environment has TUTTI_LAUNCHER=", shown_value(from_environment), "; drop one of the two");
  if (chosen.empty()) chosen = from_environment.empty() ? "auto" : from_environment;
  std::vector<std::string> known = launcher_names();
  known.insert(known.begin(), {"auto", "none", "env"});
  if (std::find(known.begin(), known.end(), chosen) != known.end()) return chosen;
  refuse("TUTTI_LAUNCHER (or the option for it) is ", shown_value(chosen), ", which is no launcher; known are ",
         listed(known));
}

/// A scheduler's variables are here, but it did not start this process as one of several.
void fill_lone(World& world, const LauncherSearch& search) {
  if (search.remark.empty()) return;
  world.detected_from += " (" + search.remark + ")";
  log(search.expects_more ? LogLevel::Warn : LogLevel::Info, "one rank: ", search.remark);
}

}  // namespace

World World::detect(const WorldOptions& options, const Environment& environment) {
  if (options.store && is_invitation(*options.store)) return invited_world(options, environment);
  const WorldSettings settings(options, environment);
  World world;
  world.detected_from = settings.source();
  world.job_id = "default";
  const std::string chosen = chosen_launcher(options, settings);
  if (chosen == "none" && !settings.any_option()) {
    world.detected_from = "nothing: one rank (the launcher is said to be none)";
  } else if (chosen == "env" || (chosen == "auto" && (settings.has("RANK") || settings.has("WORLD_SIZE"))) ||
             chosen == "none") {
    fill_place(world, settings);
  } else {
    const LauncherSearch search = find_launcher(chosen, environment);
    if (search.place) {
      fill_launched(world, *search.place, settings);
    } else if (settings.any_option() || settings.found_any()) {
      fill_place(world, settings);
    } else {
      fill_lone(world, search);
    }
  }
  world.job_id = settings.text("TUTTI_JOB_ID").value_or(world.job_id);
  world.launcher_owns_store = launcher_serves(settings) && environment("TUTTI_STORE");
  if (world.world_size > 1) {
    world.job_secret = tutti::comm::job_secret(environment);
  } else {
    world.job_secret = environment("TUTTI_JOB_SECRET").value_or("");
  }
  return world;
}

}  // namespace tutti::comm
