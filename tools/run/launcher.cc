#include <poll.h>
#include <tutti/comm/wire/job_secret.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/attempt.h>
#include <tutti/tools/run/launch_context.h>
#include <tutti/tools/run/nodes/judge.h>
#include <tutti/tools/run/reserved_port.h>
#include <tutti/tools/run/round_stores.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

namespace tutti::tools {
namespace {

// What follows the loss of a rank of this host's own elastic job; and its store is told of ranks that end too early.
class OwnControl final : public AttemptControl {
 public:
  explicit OwnControl(const RoundStores& stores) : stores_(stores) {}

  int fd() const override { return -1; }
  std::vector<Order> take_orders() override { return std::exchange(orders_, {}); }
  void signal_came(int, bool) override {}

  void ranks_changed(const std::vector<RankEnd>& ranks) override {
    for (const RankEnd& rank : ranks) {
      if (stores_.server() != nullptr && !rank.running && rank.code == 0)
        stores_.server()->rank_ended(rank.rank, describe(rank) + ", before it had joined");
    }
    if (stores_.elastic() == nullptr) return;
    stores_.elastic()->changed(0, ranks);
    ElasticJob::Step step = stores_.elastic()->look(RankEnd::Clock::now());
    for (auto& [node, order] : step.orders) orders_.push_back(std::move(order));
    if (step.give_up) orders_.push_back({.act = Order::Act::Settle});
  }

 private:
  const RoundStores& stores_;
  std::vector<Order> orders_;
};

// A job on this host alone.
class Launch {
 public:
  explicit Launch(LaunchContext& context) : context_(context), options_(context.options) {}

  int run() {
    if (!options_.log_dir.empty()) std::filesystem::create_directories(options_.log_dir);
    for (int restart = 0;; ++restart) {
      JobEnvironment job{.secret = secret_, .max_restarts = options_.max_restarts};
      RoundPlan& plan = job.plan;
      plan = {.restart_count = restart,
              .world_size = options_.nproc,
              .job_id = job_id_,
              .master_addr = options_.master_addr,
              .master_port = options_.master_port,
              .nodes = {{.nproc = options_.nproc}}};
      const RoundStores stores(options_, options_.master_addr, options_.master_port, secret_, plan,
                               [this](const std::string& line) { context_.say(line + "\n"); });
      const std::unique_ptr<ReservedPort> reserved = reserve_port(plan);
      ElasticJob* const elastic = stores.elastic();
      if (options_.verbose) describe_job(plan);
      OwnControl control(stores);
      Attempt attempt(context_, job, control);
      attempt.start();
      attempt.run();
      const int status = report(attempt);
      const bool tried = elastic != nullptr && elastic->program_is_elastic();  // its restarts were of single ranks
      if (status == 0 || restart == options_.max_restarts || attempt.interrupted_by() || tried) return status;
      context_.say("starting all ranks again (restart " + std::to_string(restart + 1) + " of at most " +
                   std::to_string(options_.max_restarts) + ")\n");
    }
  }

 private:
  std::unique_ptr<ReservedPort> reserve_port(RoundPlan& plan) const {
    if (options_.store || options_.master_port != 0) return nullptr;
    auto reserved = std::make_unique<ReservedPort>(options_.master_addr);
    plan.master_port = reserved->port();
    return reserved;
  }

  void describe_job(const RoundPlan& plan) {
    const bool users = std::getenv("OMP_NUM_THREADS") != nullptr;
    context_.say(
        std::to_string(options_.nproc) + " ranks of '" + options_.command.front() + "', job " + plan.job_id + ", " +
        (options_.store ? "store at " + comm::host_and_port(plan.master_addr, plan.store_port) + ", PyTorch's at "
                        : "no store; MASTER_ADDR and MASTER_PORT say ") +
        comm::host_and_port(plan.master_addr, plan.master_port) + ", OMP_NUM_THREADS " +
        (users ? "as in the environment" : "= " + std::to_string(omp_threads(options_.nproc))) + "\n");
  }

  // Queues the summary of a failure; returns the exit status.
  int report(const Attempt& attempt) {
    RoundEnd end;
    end.ended[0].ranks = attempt.ends();
    end.interrupted_by = attempt.interrupted_by();
    if (end.interrupted_by) end.interrupted_text = "stopped by " + signal_name(*end.interrupted_by);
    const Judgement judgement = judge(end);
    // `| head`: no failure of which there is something to say.
    const bool reader_left = context_.console.error() == EPIPE && judgement.status == 128 + SIGPIPE;
    if (judgement.all_well || (reader_left && !end.interrupted_by)) return judgement.status;
    context_.say(judgement.summary);
    if (!end.interrupted_by && !options_.log_dir.empty())
      context_.console.err().push("  the output of all ranks is in " + options_.log_dir + "\n");
    return judgement.status;
  }

  LaunchContext& context_;
  const LaunchOptions& options_;
  const std::string job_id_ = new_job_id();
  const std::string secret_ = comm::new_job_secret();
};

std::optional<std::string> objection(const LaunchOptions& options) {
  if (options.nproc < 1) return "the number of ranks is " + std::to_string(options.nproc) + ", but must be at least 1";
  if (options.command.empty()) return "no program given";
  if (options.elastic && !options.store) return "--elastic needs the launcher's own store; leave --no-store out";
  if (options.elastic && !options.nodes &&
      (options.elastic->min_ranks < 1 || options.elastic->min_ranks > options.nproc)) {
    return "--min-ranks is " + std::to_string(options.elastic->min_ranks) +
           ", but must be from 1 to the number of ranks";
  }
  if (options.max_restarts < 0) return "--max-restarts is negative";
  if (options.grace.count() < 0 || options.term_grace.count() < 0) return "--grace is negative";
  return std::nullopt;
}

// Process groups that may be there at one time; an elastic job's dead ones count until the end.
int group_limit(const LaunchOptions& options) {
  if (options.remote) return static_cast<int>(2 * options.remote->hosts.size()) + options.max_restarts;
  return options.elastic ? options.nproc * (1 + std::min(options.max_restarts, 1000)) : options.nproc;
}

}  // namespace

void LaunchContext::flush() {
  while (console.has_bytes()) {
    std::vector<pollfd> entries{{signals.fd(), POLLIN, 0}};
    console.add_poll_entries(entries);
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    for (std::size_t i = 1; i < entries.size(); ++i) console.handle(entries[i]);
    while (const std::optional<int> signal = signals.next()) {
      if (asks_to_end(*signal)) return;
    }
  }
}

int launch(const LaunchOptions& options) {
  if (const auto text = objection(options)) {
    const std::string line = options.name + ": " + *text + "\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
    return 2;
  }
  LaunchContext context(options, group_limit(options));
  int status = 1;
  try {
    status = options.remote ? run_remotely(context) : options.nodes ? run_agent(context) : Launch(context).run();
  } catch (const CannotExecute& error) {
    context.say(std::string(error.what()) + (options.remote ? " (--rsh)\n" : "\n"));
    status = error.status();
  } catch (const std::exception& error) {
    context.say(std::string(error.what()) + "\n");
  }
  context.flush();
  const int error = context.console.error();
  if (status != 0 || error == 0) return status;
  return error == EPIPE ? 128 + SIGPIPE : 1;
}

std::string this_program() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace tutti::tools
