#include <sys/wait.h>
#include <tutti/tools/labs/layouts/real_slurm.h>

#include <array>
#include <cstdio>
#include <sstream>

namespace tutti::labs::layouts {
namespace {

constexpr char kProbe[] = "sh -c 'echo @$SLURM_STEP_ID $SLURM_PROCID $SLURMD_NODENAME $SLURM_LOCALID'";
constexpr std::size_t kMostOutput = 1 << 20;

struct Output {
  std::string text;
  int status = 0;
};

Output run(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw PlacementError("cannot start a shell for srun");
  Output output;
  std::array<char, 4096> part{};
  for (std::size_t got = 0; (got = fread(part.data(), 1, part.size(), pipe)) > 0;) {
    if (output.text.size() < kMostOutput) output.text.append(part.data(), got);
  }
  output.status = pclose(pipe);
  return output;
}

void place(const std::string& line, std::vector<Layout>& layouts) {
  std::istringstream words(line.substr(1));
  std::size_t step = 0, rank = 0;
  Task task;
  if (!(words >> step >> rank >> task.node >> task.local) || step >= layouts.size() || rank > 65536) return;
  if (layouts[step].size() <= rank) layouts[step].resize(rank + 1);
  layouts[step][rank] = task;
}

}  // namespace

std::string arguments_of(const Options& options) {
  std::string text;
  const auto add = [&](const char* name, const std::optional<int>& value) {
    if (value) text += std::string(text.empty() ? "" : " ") + name + std::to_string(*value);
  };
  add("-N ", options.nodes);
  add("-n ", options.tasks);
  add("--ntasks-per-node=", options.tasks_per_node);
  add("-c ", options.cpus_per_task);
  add("-r ", options.relative);
  std::string names;
  for (const std::string& name : options.nodelist) names += (names.empty() ? "" : ",") + name;
  if (!names.empty()) text += " -w '" + names + "'";
  if (options.distribution == Distribution::Block) text += " -m block";
  if (options.distribution == Distribution::Cyclic) text += " -m cyclic";
  if (options.distribution == Distribution::Plane) text += " -m plane=" + std::to_string(options.plane);
  if (options.exclusive) text += " --exclusive";
  return text;
}

std::vector<Layout> run_on_slurm(const Options* job, const std::vector<Options>& steps, std::chrono::seconds deadline) {
  const std::string limit = "timeout " + std::to_string(deadline.count()) + " ";
  std::string command;
  for (const Options& step : steps) {
    command += (command.empty() ? "" : " && ") + std::string("srun -Q ") + arguments_of(step) + " " + kProbe;
  }
  if (job != nullptr) {
    std::string quoted;
    for (const char c : command) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    command = "salloc -Q " + arguments_of(*job) + " sh -c '" + quoted + "'";
  }
  const Output output = run(limit + command + " 2>&1 </dev/null");
  std::vector<Layout> layouts(steps.size());
  std::string said;
  std::istringstream in(output.text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] == '@') {
      place(line, layouts);
    } else {
      said += (said.empty() ? "" : "; ") + line;
    }
  }
  if (output.status != 0) {
    const int status = WIFEXITED(output.status) ? WEXITSTATUS(output.status) : 128;
    throw PlacementError(
        "Slurm ended with status " + std::to_string(status) +
        (status == 124 ? ", since it took longer than " + std::to_string(deadline.count()) + " s" : "") +
        (said.empty() ? "" : ": " + said));
  }
  return layouts;
}

}  // namespace tutti::labs::layouts
