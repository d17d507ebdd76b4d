#include <tutti/trainer/pipeline/schedule.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tutti::trainer {

std::string_view name(PipelineSchedule schedule) { return schedule == PipelineSchedule::GPipe ? "gpipe" : "1f1b"; }

std::vector<PipelineAction> plan_pipeline(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  if (stage < 0 || stage >= stages || micro_batches < 0) {
    throw std::invalid_argument("plan_pipeline: stage " + std::to_string(stage) + " of " + std::to_string(stages) +
                                " with " + std::to_string(micro_batches) +
                                " micro-batches; expected a stage from 0 to below the number of stages, and no "
                                "negative number of micro-batches");
  }
  using Kind = PipelineAction::Kind;
  // How many forwards run ahead of the first backward: the stages behind need that many to be kept busy.
  const int ahead = schedule == PipelineSchedule::GPipe ? micro_batches : std::min(stages - 1 - stage, micro_batches);
  std::vector<PipelineAction> actions;
  for (int i = 0; i < ahead; ++i) actions.push_back({Kind::Forward, i});
  for (int i = ahead; i < micro_batches; ++i) {
    actions.push_back({Kind::Forward, i});
    actions.push_back({Kind::Backward, i - ahead});
  }
  for (int i = micro_batches - ahead; i < micro_batches; ++i) actions.push_back({Kind::Backward, i});
  return actions;
}

}  // namespace tutti::trainer
