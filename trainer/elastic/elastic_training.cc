#include <tutti/comm/base/error.h>
#include <tutti/tensor/thread_pool.h>
#include <tutti/trainer/elastic/elastic_training.h>
#include <tutti/trainer/run_training.h>
#include <tutti/trainer/tensor_comm.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

namespace tutti::trainer {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookUp{200};
constexpr milliseconds kAnswerTime{10'000};  // of the control store, which waits for nobody

/// Looks whether the next generation is there, on a thread of its own, since a store's answer may take a while.
std::jthread watch_for_generation(comm::GenerationMember& member, milliseconds every, std::atomic<bool>& found) {
  return std::jthread([&member, every, &found](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!found.load()) {
      wake.wait_for(lock, stop, every, [] { return false; });
      if (stop.stop_requested()) return;
      try {
        if (member.newer_exists(comm::Deadline::after(kAnswerTime))) found.store(true);
      } catch (const comm::Error&) {  // the launcher is gone: the rank that asks for the next generation will be told
        found.store(true);
      }
    }
  });
}

/// Whether an error of the group means that others are gone, and not that this rank is wrong.
bool others_are_lost(const comm::Error& error) {
  return error.code() == comm::ErrorCode::PeerLost || error.code() == comm::ErrorCode::Timeout ||
         error.code() == comm::ErrorCode::Aborted;
}

/// Whether another process in this one's place would meet the same error: a full disk, other data, options that differ.
/// Not what comm says of the system, which may be that another process has ended. Null: an error of the trainer's own.
bool would_come_again(const comm::Error* of_group) {
  return of_group == nullptr || of_group->code() == comm::ErrorCode::Mismatch;
}

/// One rank's way through the generations.
class Generations {
 public:
  explicit Generations(const ElasticTraining& training) : training_(training), options_(training.options) {}

  RunReport run() {
    check_elastic_options(options_);
    for (;;) {
      const comm::World world = next_place();
      if (training_.placed) training_.placed(world);
      // Checkpoints that an earlier run left are none of ours, as long as this one has not begun.
      const bool begun =
          training_.member.number() > 0 && training_.member.has_begun(comm::Deadline::after(kAnswerTime));
      if (begun && !options_.checkpoint_dir.empty()) options_.resume = true;
      std::string reason;
      if (auto report = train_in(world, reason)) return *report;
      state_.roll_back();
      training_.member.leave(reason, comm::Deadline::after(kAnswerTime));
    }
  }

 private:
  /// Looks up now and then whether this rank was asked to end: nobody else does so while it waits.
  comm::World next_place() {
    const auto deadline = comm::Deadline::after(training_.patience);
    for (;;) {
      try {
        return training_.member.next(deadline.earlier_of(comm::Deadline::after(kLookUp)));
      } catch (const comm::Error& error) {
        if (error.code() != comm::ErrorCode::Timeout || deadline.expired()) throw;
      }
      if (training_.output.requests != nullptr && training_.output.requests->stop_asked()) {
        throw comm::Error(comm::ErrorCode::Aborted, "asked to end while it waited for the other ranks");
      }
    }
  }

  /// Nothing, and why, if the run goes on in another generation.
  std::optional<RunReport> train_in(const comm::World& world, std::string& reason) {
    std::unique_ptr<comm::ProcessGroup> group;
    try {
      group = comm::ProcessGroup::connect(
          world, {.timeout = options_.timeout, .encrypt = options_.encrypt, .trace_file = options_.trace.string()});
      RunReport report = train_with(*group, world);
      group->shutdown();
      return report;
    } catch (const GenerationOver& over) {
      reason = over.what();
    } catch (const std::exception& error) {
      reason = error.what();
      if (group) group->abort(reason);
      const auto* const of_group = dynamic_cast<const comm::Error*>(&error);
      if (would_come_again(of_group)) training_.member.fail_for_good(reason, comm::Deadline::after(kAnswerTime));
      if (of_group == nullptr || !others_are_lost(*of_group)) throw;
    }
    return std::nullopt;
  }

  RunReport train_with(comm::ProcessGroup& group, const comm::World& world) {
    // Rank 0 may have said that the job has begun between two ranks' questions: its own answer counts for all.
    options_.resume = broadcast_text(group, options_.resume ? "resume" : "", 0) == "resume";
    if (world.rank == 0) {
      if (training_.check) training_.check(options_);
      training_.member.set_begun(comm::Deadline::after(kAnswerTime));
    }
    options_.device = device_of_rank(options_.device, world.local_rank);  // and stays, as the model does
    const int threads = options_.threads > 0 ? options_.threads : default_threads(world);
    tensor::set_num_threads(threads);
    std::atomic<bool> next_is_there{false};
    std::jthread watch;  // ends with this function
    if (world.rank == 0) watch = watch_for_generation(training_.member, training_.look_every, next_is_there);
    const ElasticRun elastic{.state = state_,
                             .generation = training_.member.number(),
                             .first_size = training_.member.first_size(),
                             .next_is_there = next_is_there,
                             .prepared = training_.prepared};
    return train(options_, group, threads, training_.output, &elastic);
  }

  const ElasticTraining& training_;
  TrainOptions options_;
  TrainingState state_;
};

}  // namespace

void check_elastic_options(const TrainOptions& options) {
  const auto refuse = [](const std::string& option, const std::string& why) {
    throw UsageError(option + " does not go with elastic training: " + why);
  };
  if (options.shard_optimizer)
    refuse("--shard-optimizer", "a lost rank takes its share of the optimizer's state along");
  if (options.comm_hook == "topk") {
    refuse("--comm-hook " + options.comm_hook, "a lost rank takes along what it has not sent yet; bf16 and fp16 do");
  }
}

RunReport train_elastically(const ElasticTraining& training) { return Generations(training).run(); }

}  // namespace tutti::trainer
