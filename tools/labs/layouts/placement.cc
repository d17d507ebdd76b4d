#include <tutti/tools/labs/layouts/placement.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace tutti::labs::layouts {
namespace {

struct Request {
  int nodes = 1;
  bool nodes_fixed = false;
  int tasks = 1;
  int per_node = 0;  // 0: any number
  std::vector<std::string> warnings;
};

std::string text(int number) { return std::to_string(number); }

/// The numbers that srun, salloc and sbatch make of -N, -n, -w and --ntasks-per-node.
Request completed(const Options& options) {
  Request request;
  const int named = static_cast<int>(options.nodelist.size());
  request.nodes_fixed = options.nodes || named > 0;
  request.nodes = options.nodes ? *options.nodes : std::max(named, 1);
  if (options.nodes && named > *options.nodes) {
    throw PlacementError("--nodelist names " + text(named) + " nodes, --nodes asks for " + text(*options.nodes));
  }
  const int per_node = options.tasks_per_node.value_or(0);
  request.tasks = options.tasks ? *options.tasks : request.nodes * std::max(per_node, 1);
  if (options.tasks && request.nodes_fixed && request.tasks < request.nodes) {
    request.warnings.push_back("can't run " + text(request.tasks) + " tasks on " + text(request.nodes) +
                               " nodes, so the number of nodes becomes " + text(request.tasks));
    request.nodes = request.tasks;
  }
  request.per_node = per_node;
  if (per_node > 0 && options.tasks && request.nodes_fixed && request.tasks != per_node * request.nodes) {
    request.warnings.push_back("--ntasks-per-node=" + text(per_node) + " is ignored, since it does not match " +
                               text(request.tasks) + " tasks on " + text(request.nodes) + " nodes");
    request.per_node = 0;
  }
  return request;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_names(const Cluster& cluster, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!contains(cluster.nodes, name)) throw PlacementError("there is no node '" + name + "' in this cluster");
  }
}

/// `count` nodes of `from`: those that are named, then others in order; in the order of `from`.
std::vector<std::size_t> chosen(const std::vector<std::string>& from, const Options& options, int count,
                                std::size_t first = 0) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (contains(options.nodelist, from[i]) && static_cast<int>(indices.size()) < count) indices.push_back(i);
  }
  for (std::size_t i = first; i < from.size() && static_cast<int>(indices.size()) < count; ++i) {
    if (!contains(options.nodelist, from[i])) indices.push_back(i);
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

int nodes_needed(const Request& request, int tasks_on_a_node) {
  const int fits = request.per_node > 0 ? std::min(request.per_node, tasks_on_a_node) : tasks_on_a_node;
  const int needed = fits > 0 ? (request.tasks + fits - 1) / fits : request.tasks + 1;
  return request.nodes_fixed ? std::max(request.nodes, needed) : needed;
}

std::vector<int> greedy_cores(const Request& request, int nodes, int cores, int each) {
  std::vector<int> result;
  int left = request.tasks;
  for (int node = 0; node < nodes; ++node) {
    const int later = nodes - node - 1;
    int tasks = std::max(1, std::min(left - later, cores / each));
    if (request.per_node > 0) tasks = std::min(request.per_node, left);
    result.push_back(tasks * each);
    left -= tasks;
  }
  return result;
}

std::vector<int> block_order(const std::vector<int>& counts) {
  std::vector<int> order;
  for (std::size_t node = 0; node < counts.size(); ++node) {
    order.insert(order.end(), static_cast<std::size_t>(counts[node]), static_cast<int>(node));
  }
  return order;
}

/// `plane` tasks to each node in turn, while it has room.
std::vector<int> dealt(std::vector<int> room, int tasks, int plane) {
  std::vector<int> order;
  while (static_cast<int>(order.size()) < tasks) {
    const std::size_t before = order.size();
    for (std::size_t node = 0; node < room.size(); ++node) {
      for (int i = 0; i < plane && room[node] > 0 && static_cast<int>(order.size()) < tasks; ++i, --room[node]) {
        order.push_back(static_cast<int>(node));
      }
    }
    if (order.size() == before) throw PlacementError("More processors requested than permitted");
  }
  return order;
}

Layout numbered(const std::vector<int>& order, const std::vector<std::string>& names) {
  Layout layout;
  std::vector<int> next(names.size(), 0);
  for (const int node : order) {
    layout.push_back({names[static_cast<std::size_t>(node)], next[static_cast<std::size_t>(node)]++});
  }
  return layout;
}

Layout laid_out(const Options& options, const std::vector<std::string>& names, const std::vector<int>& room,
                int tasks) {
  const Distribution distribution = options.distribution.value_or(Distribution::Block);
  const std::vector<int> order = dealt(room, tasks, distribution == Distribution::Plane ? options.plane : 1);
  if (distribution != Distribution::Block) return numbered(order, names);
  std::vector<int> counts(names.size(), 0);
  for (const int node : order) ++counts[static_cast<std::size_t>(node)];
  return numbered(block_order(counts), names);
}

/// A step's options with what its job's SLURM_* variables say where it is silent.
Options inherited(const Job& job, Options step) {
  if (!step.tasks) step.tasks = job.options.tasks;
  if (!step.nodes) step.nodes = static_cast<int>(job.nodes.size());
  if (!step.tasks_per_node) step.tasks_per_node = job.options.tasks_per_node;
  if (!step.distribution) {
    step.distribution = job.options.distribution;
    step.plane = job.options.plane;
  }
  return step;
}

}  // namespace

Job allocate(const Cluster& cluster, const Options& options) {
  check_names(cluster, options.nodelist);
  if (options.relative) throw PlacementError("--relative counts nodes within a job; here there is none yet");
  const Request request = completed(options);
  const int each = options.cpus_per_task.value_or(1);
  const int nodes = nodes_needed(request, cluster.cores / each);
  if (!options.nodelist.empty() && nodes > static_cast<int>(options.nodelist.size())) {
    throw PlacementError("--nodelist names fewer nodes than are needed (" + text(nodes) +
                         "); Slurm would choose the others, and this lab does not foresee which");
  }
  const std::vector<std::size_t> indices = chosen(cluster.nodes, options, nodes);
  const bool too_many = options.nodes && nodes > request.nodes;
  if (too_many || static_cast<int>(indices.size()) < nodes) {
    throw PlacementError(
        "Requested node configuration is not available: " + text(request.tasks) + " tasks of " + text(each) +
        " core(s) need " + text(nodes) + " nodes of " + text(cluster.cores) + " cores, and " +
        (too_many ? text(request.nodes) + " are asked for" : text(static_cast<int>(indices.size())) + " can be had"));
  }
  Job job;
  job.options = options;
  job.options.nodes = nodes;
  if (!job.options.tasks && options.tasks_per_node) job.options.tasks = request.tasks;
  for (const std::size_t index : indices) job.nodes.push_back(cluster.nodes[index]);
  job.cores = options.exclusive ? std::vector<int>(job.nodes.size(), cluster.cores)
                                : greedy_cores(request, nodes, cluster.cores, each);
  return job;
}

Placed place_step(const Job& job, const Options& options) {
  const int have = static_cast<int>(job.nodes.size());
  if (options.nodes && *options.nodes > have) {
    throw PlacementError("Only allocated " + text(have) + " nodes, asked for " + text(*options.nodes));
  }
  for (const std::string& name : options.nodelist) {
    if (!contains(job.nodes, name)) throw PlacementError("node '" + name + "' does not belong to this job");
  }
  const Options whole = inherited(job, options);
  Request request = completed(whole);
  const int each = whole.cpus_per_task.value_or(1);
  const auto first = static_cast<std::size_t>(whole.relative.value_or(0));
  const std::vector<std::size_t> indices = chosen(job.nodes, whole, request.nodes, first);
  if (static_cast<int>(indices.size()) < request.nodes) {
    throw PlacementError("the job has no " + text(request.nodes) + " nodes for this step");
  }
  std::vector<std::string> names;
  std::vector<int> room;
  for (const std::size_t index : indices) {
    names.push_back(job.nodes[index]);
    room.push_back(job.cores[index] / each);
  }
  if (std::accumulate(room.begin(), room.end(), 0) < request.tasks) {
    std::string cause = "More processors requested than permitted: the step asks for " + text(request.tasks) +
                        " tasks" + (options.tasks ? "" : " (as its job, since it has no --ntasks)") + ", and its " +
                        text(request.nodes) + " nodes have room for " +
                        text(std::accumulate(room.begin(), room.end(), 0));
    for (const std::string& warning : request.warnings) cause += "; besides, " + warning;
    throw PlacementError(cause);
  }
  return {laid_out(whole, names, room, request.tasks), request.warnings};
}

Placed place_alone(const Cluster& cluster, const Options& options) {
  Job job = allocate(cluster, options);
  Options step = options;
  step.nodelist.clear();
  step.nodes.reset();
  Placed placed = place_step(job, step);
  const Request request = completed(options);
  placed.warnings = request.warnings;
  return placed;
}

std::string described(const Layout& layout) {
  std::vector<std::pair<std::string, int>> counts;
  for (const Task& task : layout) {
    auto found =
        std::find_if(counts.begin(), counts.end(), [&](const auto& entry) { return entry.first == task.node; });
    if (found == counts.end()) found = counts.insert(counts.end(), {task.node, 0});
    ++found->second;
  }
  std::string result;
  for (const auto& [node, count] : counts) {
    result += (result.empty() ? "" : ", ") + std::to_string(count) + " on " + node;
  }
  return result;
}

}  // namespace tutti::labs::layouts
