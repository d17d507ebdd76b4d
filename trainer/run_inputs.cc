#include <tutti/trainer/run_inputs.h>
#include <tutti/trainer/same_options.h>

#include <algorithm>
#include <utility>

namespace tutti::trainer {
namespace {

std::unique_ptr<Loader> make_loader(const TrainOptions& options, const ImageDataset& data,
                                    std::shared_ptr<const Sampler> sampler, Split split, std::int64_t batch_size) {
  LoaderOptions loading;
  loading.batch_size = batch_size;
  loading.threads = options.workers;
  loading.normalisation = normalisation_of(options);
  if (split == Split::Train) loading.augmentation = augmentation_of(options);
  loading.seed = options.seed;
  return std::make_unique<Loader>(data, std::move(sampler), loading);
}

SamplerOptions sampling_of(const TrainOptions& options, std::int64_t samples, std::int64_t global_batch,
                           const comm::ProcessGroup& group) {
  SamplerOptions sampling{.count = samples, .replicas = group.world_size(), .rank = group.rank()};
  sampling.seed = options.seed;
  sampling.drop_last = options.drop_last;
  sampling.padding = options.padding;
  if (options.reproducible.value_or(false)) {  // an epoch that is the same for every number of ranks
    sampling.padding = false;
    if (options.drop_last) sampling.multiple = static_cast<int>(global_batch);
  }
  return sampling;
}

/// Of a step's samples this rank's part, where ranks may have changed; a rank without any still has a loader.
std::int64_t share_of(std::int64_t global_batch, const comm::ProcessGroup& group) {
  return std::max<std::int64_t>(1, (global_batch - group.rank() + group.world_size() - 1) / group.world_size());
}

}  // namespace

RunInputs open_inputs(const TrainOptions& options, comm::ProcessGroup& group, int threads,
                      const ElasticInputs& elastic) {
  RunInputs inputs;
  inputs.data = elastic.data ? elastic.data : std::make_shared<TaskData>(load_task_data(options, threads));
  const ImageDataset& train = inputs.data->train;
  const ImageDataset& test = inputs.data->test;
  const int ranks = elastic.first_size > 0 ? elastic.first_size : group.world_size();
  inputs.global_batch = options.batch_size * ranks;
  check_same_options(group, options, *inputs.data);
  inputs.agreed = options_that_must_agree(options, ranks, data_identity(train));
  inputs.agreed["test data"] = data_identity(test);
  SamplerOptions sampling = sampling_of(options, train.count(), inputs.global_batch, group);
  if (elastic.first_size > 0) {
    sampling.global_batch = inputs.global_batch;
    sampling.padded_for = ranks;
  }
  inputs.sampler = std::make_shared<DistributedSampler>(sampling);
  inputs.train_loader = make_loader(options, train, inputs.sampler, Split::Train, share_of(inputs.global_batch, group));
  inputs.test_loader =
      make_loader(options, test, std::make_shared<EvaluationSampler>(test.count(), group.world_size(), group.rank()),
                  Split::Test, evaluation_batch_of(options));
  return inputs;
}

}  // namespace tutti::trainer
