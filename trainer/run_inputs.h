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
  TaskData data;
  std::map<std::string, std::string> agreed;  // options_that_must_agree, compared over all ranks
  std::shared_ptr<const DistributedSampler> sampler;
  std::unique_ptr<Loader> train_loader;
  std::unique_ptr<Loader> test_loader;

  /// Of the rank that has the most samples, which is rank 0.
  std::int64_t steps_per_epoch(std::int64_t batch_size) const {
    return (sampler->size_of(0) + batch_size - 1) / batch_size;
  }
};

/// Collective. `options` went through checked(). Throws what load_task_data throws, and on every rank the same
/// std::runtime_error when a rank was started with other options or found other data than rank 0.
RunInputs open_inputs(const TrainOptions& options, comm::ProcessGroup& group, int threads);

}  // namespace tutti::trainer
