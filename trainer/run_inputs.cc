#include <tutti/trainer/parallel_options.h>
#include <tutti/trainer/report/summary.h>
#include <tutti/trainer/run_inputs.h>
#include <tutti/trainer/tensor_comm.h>

#include <stdexcept>
#include <utility>

namespace tutti::trainer {
namespace {

std::unique_ptr<Loader> make_loader(const TrainOptions& options, const ImageDataset& data,
                                    std::shared_ptr<const Sampler> sampler, Split split) {
  LoaderOptions loading;
  loading.batch_size = split == Split::Train ? options.batch_size : evaluation_batch_of(options);
  loading.threads = options.workers;
  loading.normalisation = normalisation_of(options);
  if (split == Split::Train) loading.augmentation = augmentation_of(options);
  loading.seed = options.seed;
  return std::make_unique<Loader>(data, std::move(sampler), loading);
}

/// Every rank was started with the same options and found the same data; else all throw the same sentence.
void check_same_options(comm::ProcessGroup& group, const std::map<std::string, std::string>& options) {
  std::string mine;
  for (const auto& [key, value] : options) mine += key + " " + value + "\n";
  const auto all = all_gather_texts(group, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw std::runtime_error("rank " + std::to_string(rank) + " was started with other options or data than rank 0: " +
                             first_differing_lines(all[0], all[rank]));
  }
}

SamplerOptions sampling_of(const TrainOptions& options, std::int64_t samples, const comm::ProcessGroup& group) {
  SamplerOptions sampling{.count = samples, .replicas = group.world_size(), .rank = group.rank()};
  sampling.seed = options.seed;
  sampling.drop_last = options.drop_last;
  sampling.padding = options.padding;
  sampling.multiple = samples_multiple(options);
  return sampling;
}

}  // namespace

RunInputs open_inputs(const TrainOptions& options, comm::ProcessGroup& group, int threads) {
  RunInputs inputs;
  inputs.data = load_task_data(options, threads);
  inputs.agreed = options_that_must_agree(options, group.world_size(), data_identity(inputs.data.train));
  check_same_options(group, inputs.agreed);
  const ImageDataset& test = inputs.data.test;
  inputs.sampler = std::make_shared<DistributedSampler>(sampling_of(options, inputs.data.train.count(), group));
  inputs.train_loader = make_loader(options, inputs.data.train, inputs.sampler, Split::Train);
  inputs.test_loader = make_loader(
      options, test, std::make_shared<EvaluationSampler>(test.count(), group.world_size(), group.rank()), Split::Test);
  return inputs;
}

}  // namespace tutti::trainer
