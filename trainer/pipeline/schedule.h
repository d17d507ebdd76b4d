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
#pragma once

#include <string_view>
#include <vector>

namespace tutti::trainer {

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

}  // namespace tutti::trainer
