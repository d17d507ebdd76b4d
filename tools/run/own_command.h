// What a program needs that starts its own ranks: has a launcher done so already, and how was I called?
//
// Thread-safety: pure readers of the environment and of /proc.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tools/run/launcher.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tutti::tools {

/// The number of ranks that a launcher has started: WORLD_SIZE, where RANK is set too, or that of a scheduler whose
/// step has more than one (World::detect says which are known). Nothing without one, and with TUTTI_LAUNCHER=none.
/// Throws comm::Error for variables that contradict each other.
std::optional<std::string> world_size_from_launcher();

/// Why --nproc cannot be so: not from 1 to 4096, or a launcher has started another number of ranks, which in an elastic
/// job (`ranks_change`) is no objection. "" if it can be, or is not given.
std::string nproc_objection(std::optional<std::int64_t> nproc, bool ranks_change = false);

/// --iface: TUTTI_IFACE for this process and the ranks that it starts. Usage errors are CLI's.
void add_interface_option(CLI::App& app);

/// -n/--nproc, --iface, and --launcher NAME, the same as TUTTI_LAUNCHER=NAME, which it sets for this process. Ranks
/// that this very command has started keep to their launcher.
void add_own_ranks_options(CLI::App& app, std::optional<std::int64_t>& nproc);

/// --columns, which is hidden: launch_of_own_ranks() tells it the ranks.
void add_columns_option(CLI::App& app, std::size_t& columns);

/// --timeout: seconds until a rank that does not answer is an error. Usage errors are CLI's.
void add_timeout_option(CLI::App& app, std::chrono::milliseconds& timeout);

/// This process's own command: ranks that it starts get the same one, and find RANK in their environment. Throws
/// std::runtime_error if /proc does not tell.
std::vector<std::string> own_command();

/// One rank's part of a command: forms the group of `world`, does `work`, closes the group, and
/// returns what `work` has returned. What it throws is told to the other ranks, and thrown.
template <typename Work>
int run_as_rank(const comm::World& world, const comm::ProcessGroupOptions& options, const Work& work) {
  const auto group = comm::ProcessGroup::connect(world, options);
  try {
    const int status = work(*group);
    group->shutdown();
    return status;
  } catch (const std::exception& error) {
    group->abort(error.what());
    throw;
  }
}

/// For launch(): so many ranks of it, each on CPUs of its own as `tutti run` places them, whose lines have no label:
/// rank 0 alone reports, and errors name their rank. `name` begins every message of the launcher's.
/// Where `live`, standard output or error, is a terminal, they are told its columns, by --columns.
LaunchOptions launch_of_own_ranks(int nproc, std::string name, int live = -1);

}  // namespace tutti::tools
