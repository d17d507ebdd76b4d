#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tutti/tools/labs/answers.h>
#include <tutti/tools/labs/sandbox/held_folder.h>
#include <tutti/tools/labs/scaling/measure.h>
#include <tutti/trainer/report/step_records.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

namespace tutti::labs::scaling {
namespace {

using Clock = std::chrono::steady_clock;

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

pid_t started(const std::vector<std::string>& command, const std::filesystem::path& output) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::runtime_error("cannot start " + command[0] + " (errno " + std::to_string(error) + ")");
  return pid;
}

/// The wait status; the process is ended after kLongestRun.
int finished(pid_t pid) {
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (handle >= 0) {
    pollfd watched{.fd = handle, .events = POLLIN, .revents = 0};
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(kLongestRun).count();
    const auto until = Clock::now() + kLongestRun;
    int ready = 0;
    while ((ready = poll(&watched, 1, static_cast<int>(limit))) < 0 && errno == EINTR && Clock::now() < until) {
    }
    if (ready == 0) kill(pid, SIGKILL);
    close(handle);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string last_lines(const std::filesystem::path& output) {
  const std::string text = read_text(output).value_or("");
  std::size_t begin = text.size();
  for (int lines = 0; lines < 6 && begin > 0; ++lines) {
    const std::size_t newline = text.rfind('\n', begin - 1);
    begin = newline == std::string::npos ? 0 : newline;
  }
  return "\n" + text.substr(begin);
}

/// The parts of the steps, as means over the ranks whose records are here.
Timing parts_of(const std::filesystem::path& run_dir, double seconds) {
  Timing run;
  run.seconds = seconds;
  const std::vector<int> ranks = trainer::ranks_with_steps(run_dir);
  if (ranks.empty()) throw std::runtime_error("the run left no records of its steps in " + run_dir.string());
  for (const int rank : ranks) {
    const auto records = trainer::read_steps(trainer::steps_file(run_dir, rank)).records;
    for (const trainer::StepRecord& step : records) {
      run.compute += (step.seconds - step.wait_seconds) / static_cast<double>(ranks.size());
      run.waiting += step.wait_seconds / static_cast<double>(ranks.size());
    }
    run.steps = static_cast<std::int64_t>(records.size());
  }
  return run;
}

Timing run_once(const Plan& plan, const Layout& layout, const std::filesystem::path& program, Results& results) {
  const HeldFolder folder;
  const std::filesystem::path run_dir = folder.path() / "run", output = folder.path() / "output";
  const auto begin = Clock::now();
  const int status = finished(started(command_of(plan, layout, program, run_dir), output));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (status != 0) {
    const std::string how = WIFEXITED(status) ? "status " + std::to_string(WEXITSTATUS(status))
                                              : "signal " + std::to_string(WTERMSIG(status));
    throw std::runtime_error("the run of " + layout.name() + " ended with " + how + ":" + last_lines(output));
  }
  const auto report = nlohmann::json::parse(read_text(run_dir / "report.json").value_or("{}"), nullptr, false);
  results.generated_data = report.is_object() && report.value("generated_data", false);
  return parts_of(run_dir, seconds);
}

}  // namespace

std::vector<std::string> command_of(const Plan& plan, const Layout& layout, const std::filesystem::path& program,
                                    const std::filesystem::path& run_dir) {
  std::vector<std::string> command{program.string()};
  if (!layout.hosts.empty()) command.insert(command.end(), {"run", "-H", layout.hosts, "--", program.string()});
  command.insert(command.end(), {"train", "mnist"});
  if (layout.hosts.empty()) command.insert(command.end(), {"--nproc", std::to_string(layout.ranks)});
  command.insert(command.end(), {"--threads", std::to_string(layout.threads), "--model", plan.model, "--epochs",
                                 std::to_string(plan.epochs), "--batch-size", std::to_string(plan.batch_size),
                                 "--run-dir", run_dir.string()});
  if (!plan.data.empty()) command.insert(command.end(), {"--data", plan.data});
  return command;
}

Results measure(const Plan& plan, const std::filesystem::path& program,
                const std::function<void(const std::string&)>& progress) {
  Results results;
  results.cores = usable_cores();
  results.plan = plan;
  for (const Layout& layout : plan.layouts) results.rows.push_back({layout, {}});
  for (int turn = 0; turn < plan.repeats; ++turn) {
    for (Row& row : results.rows) {
      if (progress) {
        progress("turn " + std::to_string(turn + 1) + " of " + std::to_string(plan.repeats) + ": " + row.layout.name());
      }
      row.runs.push_back(run_once(plan, row.layout, program, results));
    }
  }
  return results;
}

}  // namespace tutti::labs::scaling
