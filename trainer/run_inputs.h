// RunInputs: what a run reads, the same on all its ranks: data, the part of it that each rank takes, and the loaders.
//
// Ownership: the loaders share the data's memory. Thread-safety: as Loader's.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/trainer/data/loader.h>
#include <tutti/trainer/options.h>
#include <tutti/trainer/task.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace tutti::trainer {

struct RunInputs {
  std::shared_ptr<const TaskData> data;
  std::int64_t global_batch = 0;              // samples of a step over all ranks
  std::map<std::string, std::string> agreed;  // options_that_must_agree, with the checkpoint to go on from
  std::shared_ptr<const DistributedSampler> sampler;
  std::unique_ptr<Loader> train_loader;
  std::unique_ptr<Loader> test_loader;
  std::unique_ptr<Loader> train_evaluation_loader;  // with --eval-train

  std::int64_t steps_per_epoch() const { return (sampler->total() + global_batch - 1) / global_batch; }
};

/// For a run whose ranks come and go.
struct ElasticInputs {
  int first_size = 0;                    // ranks that the global batch is counted by; 0: the group's
  std::shared_ptr<const TaskData> data;  // read already; may be null
};

/// Collective. `options` went through checked(). Throws what load_task_data throws, and on every rank the same
/// std::runtime_error when a rank was started with other options or found other data than rank 0.
RunInputs open_inputs(const TrainOptions& options, comm::ProcessGroup& group, const ElasticInputs& elastic = {});

}  // namespace tutti::trainer
