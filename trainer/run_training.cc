#include <tutti/comm/base/log.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/process_group.h>
#include <tutti/tensor/thread_pool.h>
#include <tutti/trainer/checkpoint/requests.h>
#include <tutti/trainer/elastic/elastic_training.h>
#include <tutti/trainer/report/run_log.h>
#include <tutti/trainer/run_training.h>
#include <tutti/trainer/train_loop.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace tutti::trainer {
namespace {

/// While it lives, comm's warnings and errors go to the run's log, too.
class WarningsToLog {
 public:
  explicit WarningsToLog(std::shared_ptr<RunLog> log) {
    comm::set_log_sink([log = std::move(log)](comm::LogLevel level, std::string_view line) {
      comm::log_to_stderr(level, line);
      if (level == comm::LogLevel::Error) log->line("error: " + std::string(line));
      if (level == comm::LogLevel::Warn) log->line("warning: " + std::string(line));
    });
  }
  ~WarningsToLog() { comm::set_log_sink({}); }
  WarningsToLog(const WarningsToLog&) = delete;
  WarningsToLog& operator=(const WarningsToLog&) = delete;
};

constexpr int kStopped = 128 + SIGTERM;

/// Trains within a group; returns the exit status. An error is given to the other ranks before it leaves.
int train_in_group(const TrainOptions& options, const comm::World& world, const ProcessStreams& streams) {
  const auto group = comm::ProcessGroup::connect(
      world, {.timeout = options.timeout, .encrypt = options.encrypt, .trace_file = options.trace.string()});
  SignalRequests requests;
  try {
    if (world.rank == 0) check_surroundings(options);
    const int threads = options.threads > 0 ? options.threads : default_threads(world);
    tensor::set_num_threads(threads);
    const TrainOutput output{
        .stream = streams.out, .live = streams.live, .columns = streams.columns, .requests = &requests};
    TrainOptions placed = options;
    placed.device = device_of_rank(options.device, world.local_rank);
    const bool stopped = train(placed, *group, threads, output).stopped;
    group->shutdown();
    return stopped ? kStopped : 0;
  } catch (const std::exception& error) {
    group->abort(error.what());
    throw;
  }
}

/// The same under an elastic launcher. `placed` hears of this rank's place in each generation.
int train_through_generations(const TrainOptions& options, comm::GenerationMember& member,
                              const ProcessStreams& streams, std::function<void(const comm::World&)> placed) {
  SignalRequests requests;
  const ElasticTraining training{
      .options = options,
      .member = member,
      .output = {.stream = streams.out, .live = streams.live, .columns = streams.columns, .requests = &requests},
      .check = check_surroundings,
      .placed = std::move(placed)};
  return train_elastically(training).stopped ? kStopped : 0;
}

}  // namespace

int default_threads(const comm::World& world) {
  const int allowed = comm::allowed_processors();  // a container or `taskset` may leave fewer than the machine has
  const int cpus = allowed > 0 ? allowed : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  // A launcher that pins its ranks has divided the CPUs already.
  const bool own = std::getenv("TUTTI_OWN_CPUS") != nullptr;
  if (own && world.cpus_per_rank <= 0) return cpus;
  return std::max(1, world.cpus_per_rank > 0 ? std::min(cpus, world.cpus_per_rank) : cpus / world.local_world_size);
}

int run_training(const TrainOptions& options, const ProcessStreams& streams) noexcept {
  std::string who = "tutti train: ";
  auto log = std::make_shared<RunLog>();
  try {
    const TrainOptions complete = checked(options);
    std::optional<WarningsToLog> warnings;
    const auto placed = [&](const comm::World& world) {
      if (world.world_size > 1) who = "rank " + std::to_string(world.rank) + ": ";
      log = std::make_shared<RunLog>(complete.run_dir, world.rank);
      warnings.emplace(log);
    };
    std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error of the write, which names the file
    if (comm::process_environment()("TUTTI_CONTROL")) check_elastic_options(complete);  // before it counts as elastic
    const auto member = comm::GenerationMember::from_environment(comm::Deadline::after(complete.timeout));
    if (member) return train_through_generations(complete, *member, streams, placed);
    const comm::World world = comm::World::detect();
    placed(world);
    return train_in_group(complete, world, streams);
  } catch (const UsageError& error) {
    streams.err << who << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
    streams.err << who << error.what() << std::endl;
    log->line("error: " + std::string(error.what()));
    return 1;
  }
}

}  // namespace tutti::trainer
