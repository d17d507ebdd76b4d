// Pipeline: a model that is too large for one rank, cut into stages; rank i of a group holds stage i.
//
//   auto stage = first_half_or_second(group.rank());
//   Pipeline pipeline(stage, group, {.micro_batches = 8});
//   ...
//   optimizer.zero_grad();
//   pipeline.run({.samples = 256,
//                 .input = [&](auto first, auto count) { return Variable(x.narrow(0, first, count)); },  // first stage
//                 .loss = [&](const Variable& y, auto first, auto count) {                               // last stage
//                   return cross_entropy(y, labels.narrow(0, first, count)); }});
//   optimizer.step();
//
// The batch is cut into micro-batches, which follow each other through the stages, so that stages compute at the same
// time (PipelineSchedule). Each stage's gradients become those of the mean over the whole batch: the bits of one rank
// that runs the same micro-batches one after the other, and those of one rank with the whole batch up to rounding.
// Layers that look at several samples (batch norm) see micro-batches.
//
// Several pipelines side by side: DataParallel wraps the stage, over the group of the ranks that hold the same one
// (ProcessGroup::split by stage); run() exchanges gradients in the last micro-batch's backward only, and the caller
// calls finish() before the optimizer.
//
// Failure: what goes wrong in a stage aborts the group with the stage's name and the text, so that no other stage
// waits. A stage whose process is gone is named by comm.
// Ownership: shares the module; group and DataParallel must outlive this. Thread-safety: none.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/pipeline/courier.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace tutti::trainer {

// In which order a stage of a pipeline computes its micro-batches. Pure functions, so that the absence of deadlocks and
// the memory they need can be proved without a network (tests/trainer/pipeline_schedule_test.cc).
//
// Stage s of S, M micro-batches; F forward, B backward; time runs to the right, S = 3, M = 4:
//
//   GPipe                                    OneForwardOneBackward
//   0: F0 F1 F2 F3          B0 B1 B2 B3      0: F0 F1 F2       B0 F3 B1    B2    B3
//   1:    F0 F1 F2 F3    B0 B1 B2 B3         1:    F0 F1    B0 F2 B1 F3 B2    B3
//   2:       F0 F1 F2 F3 B0 B1 B2 B3         2:       F0 B0 F1 B1 F2 B2 F3 B3
//
// Both idle for S - 1 forwards and S - 1 backwards a step, whatever M is, and both add up gradients in the order of the
// micro-batches, so that they give the same bits. GPipe keeps the activations of all M micro-batches;
// OneForwardOneBackward those of at most S - s.
// Sources: Huang et al., GPipe, https://arxiv.org/abs/1811.06965; Narayanan et al., PipeDream,
// https://arxiv.org/abs/1806.03377 (the order), and https://arxiv.org/abs/2104.04473 (with a flush after each step, as
// here).

enum class PipelineSchedule { GPipe, OneForwardOneBackward };

/// "gpipe", "1f1b".
std::string_view name(PipelineSchedule schedule);

struct PipelineAction {
  enum class Kind { Forward, Backward };
  Kind kind = Kind::Forward;
  int micro_batch = 0;

  bool operator==(const PipelineAction&) const = default;
};

/// What `stage` (of `stages`) does in one step. Throws std::invalid_argument unless 0 <= stage < stages and
/// micro_batches >= 0.
std::vector<PipelineAction> plan_pipeline(PipelineSchedule schedule, int stage, int stages, int micro_batches);

/// Equal on all stages.
struct PipelineOptions {
  int micro_batches = 4;  // of a batch; fewer when it has fewer samples
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;

  bool operator==(const PipelineOptions&) const = default;
};

/// One step's work. Every stage gives the same numbers; the functions are called on the stages that need them.
struct PipelineBatch {
  std::int64_t samples = 0;
  /// First stage: the samples [first, first + count) of this batch.
  std::function<tensor::Variable(std::int64_t first, std::int64_t count)> input{};
  /// Last stage: the mean loss () over them.
  std::function<tensor::Variable(const tensor::Variable& output, std::int64_t first, std::int64_t count)> loss{};
  /// int64 (samples), for layers that draw at random (nn/sample_keys.h); undefined: there are none.
  tensor::Tensor keys{};
  /// Gradients are multiplied by it: this pipeline's part of the samples over all pipelines.
  double share = 1;
};

class Pipeline {
 public:
  /// Collective. Throws std::runtime_error, the same on every rank, when the options differ, and std::invalid_argument
  /// for less than one micro-batch.
  Pipeline(std::shared_ptr<nn::Module> stage, comm::ProcessGroup& group, const PipelineOptions& options = {});
  Pipeline(DataParallel& stage, comm::ProcessGroup& group, const PipelineOptions& options = {});

  /// Collective. Forward and backward of a batch; afterwards the stage's parameters have their gradients. Returns the
  /// mean loss over the batch on the last stage, nothing elsewhere. Activations have the samples as their first axis;
  /// std::runtime_error when another number of them arrives than this stage expects.
  std::optional<double> run(const PipelineBatch& batch);

  /// Collective. The forward alone, recording nothing; for layers in evaluation mode, as the caller has set them.
  /// `loss` may look at the outputs as it likes. Returns as run() does.
  std::optional<double> evaluate(const PipelineBatch& batch);

  bool is_first() const { return group_.rank() == 0; }
  bool is_last() const { return group_.rank() == group_.world_size() - 1; }

 private:
  struct Step;

  Pipeline(std::shared_ptr<nn::Module> owned, nn::Module& stage, DataParallel* parallel, comm::ProcessGroup& group,
           const PipelineOptions& options);
  void check_options();
  std::optional<double> guarded(const PipelineBatch& batch, const std::function<void(Step&)>& body);
  void forward(Step& step, int micro_batch);
  void backward(Step& step, int micro_batch);
  tensor::Variable receive_activation(const Step& step, int micro_batch);

  std::shared_ptr<nn::Module> owned_;
  nn::Module& stage_;
  DataParallel* parallel_;
  comm::ProcessGroup& group_;
  PipelineOptions options_;
  Courier courier_;
};

}  // namespace tutti::trainer
