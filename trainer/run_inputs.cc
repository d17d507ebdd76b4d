#include <tutti/trainer/option_table.h>
#include <tutti/trainer/run_inputs.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <stdexcept>
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
  if (options.drop_last) sampling.multiple = static_cast<int>(global_batch);
  if (options.reproducible.value_or(false)) sampling.padding = false;  // the same epoch for every number of ranks
  return sampling;
}

/// Whether a model sees a single sample at once in a micro-batch of some rank, where a step takes `samples` of all
/// ranks and an epoch's last one what is left; or in a whole step, where batch norm joins the ranks.
bool any_single(const TrainOptions& options, const DistributedSampler& sampler, int ranks, std::int64_t samples) {
  if (options.sync_batch_norm || options.reproducible.value_or(false))
    return samples == 1 || sampler.total() % samples == 1;
  const std::int64_t part = options.micro_batch_size;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t batch = std::max<std::int64_t>(1, dealt(samples, rank, ranks));
    for (const std::int64_t count : {batch, sampler.size_of(rank) % batch})
      if (part == 0 ? count == 1 : part == 1 || count % part == 1) return true;
  }
  return false;
}

/// Batch norm has no statistics of one value: where a model comes down to single pixels it fails at a batch of one
/// sample, which may be an epoch's last. A model of its own finds out whether it does.
void check_single_samples(const TrainOptions& options, const RunInputs& inputs, int ranks) {
  if (!any_single(options, *inputs.sampler, ranks, inputs.global_batch)) return;
  const auto model = make_task_model(options, inputs.data->train);
  if (model->named_buffers().empty()) return;
  const tensor::Shape& images = inputs.data->train.images.shape();
  try {
    model->forward(
        tensor::Variable(tensor::Tensor::zeros({1, images[1], images[2], images[3]}, tensor::DType::Float32)));
    return;
  } catch (const std::invalid_argument&) {
  }
  const bool global = options.global_batch_size > 0;
  const std::int64_t unit = global ? 1 : ranks;
  const std::string option = global ? "--global-batch-size" : "--batch-size";
  std::string working;
  for (std::int64_t batch = inputs.global_batch / unit + 1; batch <= inputs.global_batch / unit + 8; ++batch)
    if (!any_single(options, *inputs.sampler, ranks, batch * unit))
      working += (working.empty() ? "" : ", ") + std::to_string(batch);
  throw std::runtime_error(
      "some batches would have one sample, of which " + options.model + "'s batch norm can take no statistics: " +
      (working.empty() ? "choose another " + option + " or --micro-batch-size" : option + " " + working + " would do"));
}

/// Collective. Throws the same std::runtime_error on every rank, naming each option or data set that differs, with all
/// values and their ranks.
void check_same_options(comm::ProcessGroup& group, const TrainOptions& options, const TaskData& data) {
  comm::Settings mine = options_of_all_ranks(options);
  mine.push_back({"training data", data_identity(data.train)});
  mine.push_back({"test data", data_identity(data.test)});
  std::vector<comm::Settings> all;
  for (const std::string& text : all_gather_texts(group, comm::to_text(mine))) all.push_back(comm::settings_from(text));
  const std::string different = comm::difference(all);
  if (different.empty()) return;
  throw std::runtime_error("the ranks were started with different options or data: " + different +
                           ": start all ranks alike");
}

}  // namespace

RunInputs open_inputs(const TrainOptions& options, comm::ProcessGroup& group, const ElasticInputs& elastic) {
  RunInputs inputs;
  inputs.data = elastic.data ? elastic.data : std::make_shared<TaskData>(load_task_data(options));
  const ImageDataset& train = inputs.data->train;
  const ImageDataset& test = inputs.data->test;
  const int ranks = elastic.first_size > 0 ? elastic.first_size : group.world_size();
  inputs.global_batch = options.global_batch(ranks);
  check_same_options(group, options, *inputs.data);
  for (const ImageDataset* set : {&train, &test})
    if (set->count() == 0)
      throw std::runtime_error(set->name + " has no samples: name the folder of others with --data");
  inputs.agreed = options_that_must_agree(options, ranks, data_identity(train));
  inputs.agreed["test data"] = data_identity(test);
  SamplerOptions sampling = sampling_of(options, train.count(), inputs.global_batch, group);
  if (elastic.first_size > 0 || options.global_batch_size > 0) {
    sampling.global_batch = inputs.global_batch;
    sampling.padded_for = options.global_batch_size > 0 ? 1 : ranks;
  }
  inputs.sampler = std::make_shared<DistributedSampler>(sampling);
  if (inputs.sampler->total() == 0)
    throw std::runtime_error("--drop-last leaves no step: " + train.name + " has " + std::to_string(train.count()) +
                             " samples, a step of all " + std::to_string(ranks) + " ranks takes " +
                             std::to_string(inputs.global_batch) + "; use smaller batches, or leave --drop-last out");
  if (elastic.first_size == 0) check_single_samples(options, inputs, ranks);
  const std::int64_t share = dealt(inputs.global_batch, group.rank(), group.world_size());
  // A rank without any sample still has a loader.
  inputs.train_loader = make_loader(options, train, inputs.sampler, Split::Train, std::max<std::int64_t>(1, share));
  const auto evaluation_loader = [&](const ImageDataset& data) {
    return make_loader(options, data,
                       std::make_shared<EvaluationSampler>(data.count(), group.world_size(), group.rank()), Split::Test,
                       evaluation_batch_of(options));
  };
  inputs.test_loader = evaluation_loader(test);
  if (options.eval_train) inputs.train_evaluation_loader = evaluation_loader(train);
  return inputs;
}

}  // namespace tutti::trainer
