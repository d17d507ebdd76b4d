#include <tutti/comm/base/format.h>
#include <tutti/tensor/products.h>
#include <tutti/trainer/data_parallel/hooks/comm_hooks.h>
#include <tutti/trainer/data_parallel/sharding/shard_exchange.h>
#include <tutti/trainer/data_parallel/sharding/sharded_optimizer.h>
#include <tutti/trainer/data_parallel/shared_batch.h>
#include <tutti/trainer/option_table.h>
#include <tutti/trainer/parallel_options.h>
#include <tutti/trainer/update_rule.h>

#include <algorithm>

namespace tutti::trainer {
namespace {

bool has_batch_norm(const nn::Module& model) { return !model.named_buffers().empty(); }

/// Whether batch norm must sum exactly, so that the number of ranks is invisible.
bool joins_exactly(const TrainOptions& options, const nn::Module& model) {
  return options.reproducible.value_or(false) && has_batch_norm(model);
}

/// Whether the number of ranks can be invisible, and is to be.
bool sums_exactly(const TrainOptions& options, const nn::Module& model) {
  const bool can =
      !has_batch_norm(model) && tensor::parse_device(options.device) == tensor::Device() && options.comm_hook == "none";
  return options.reproducible.value_or(can);
}

std::string bytes_text(std::size_t bytes) { return comm::format("%.2f MiB", static_cast<double>(bytes) / (1 << 20)); }

}  // namespace

void check_parallel_options(const TrainOptions& options) {
  if (options.topk_density && options.comm_hook != "topk") {
    throw UsageError("--topk-density belongs to --comm-hook topk; this is " + options.comm_hook);
  }
  const bool hooked = options.comm_hook != "none";
  if (options.shard_optimizer && hooked) {
    throw UsageError("--shard-optimizer and --comm-hook " + options.comm_hook +
                     " each have their own way for gradients; choose one");
  }
  if (options.sync_batch_norm && options.micro_batch_size > 0) {
    throw UsageError(
        "--sync-batch-norm takes statistics over all samples of a step, which --micro-batch-size never has at hand; "
        "choose one");
  }
  if (options.reproducible.value_or(false) && hooked) {
    throw UsageError("--reproducible asks for exact sums of gradients, and --comm-hook " + options.comm_hook +
                     " rounds them; choose one");
  }
}

void prepare_model(const TrainOptions& options, nn::Module& model, comm::ProcessGroup& group, std::int64_t samples) {
  if (sums_exactly(options, model)) join_linear_layers(model, group, samples, options.micro_batch_size);
  const bool exact = joins_exactly(options, model);
  if (exact && options.micro_batch_size > 0) {
    throw UsageError("--reproducible: " + options.model +
                     " has batch norm, whose statistics then are over all samples of a step; that does not go with "
                     "--micro-batch-size");
  }
  if (!options.sync_batch_norm && !exact) return;
  if (synchronise_batch_norm(model, group, exact) == 0) {
    throw UsageError("--sync-batch-norm: " + options.model + " has no batch norm; leave the option out");
  }
}

tensor::Tensor empty_input(const TrainOptions& options, const nn::Module& model, const ImageDataset& data) {
  const auto sizes = parameter_sizes(model);
  const bool joins = std::any_of(sizes.begin(), sizes.end(), [](const ParameterSize& size) { return size.is_whole; });
  if (!options.sync_batch_norm && !joins_exactly(options, model) && !joins) return {};
  const tensor::Shape& images = data.images.shape();
  return tensor::Tensor::empty({0, images[1], images[2], images[3]}).to(tensor::parse_device(options.device));
}

DataParallelOptions data_parallel_options(const TrainOptions& options, const nn::Module& model, int ranks) {
  DataParallelOptions parallel;
  parallel.buckets = options.buckets;
  const bool shards = options.shard_optimizer && ranks > 1;  // a world of one sends nothing
  if (sums_exactly(options, model)) {
    parallel.exchange = shards ? make_exact_shard_exchange : make_exact_exchange;
  } else if (ranks > 1) {
    parallel.exchange =
        shards ? make_shard_exchange
               : make_comm_hook({.hook = options.comm_hook, .topk_density = options.effective_topk_density()});
  }
  return parallel;
}

std::unique_ptr<nn::Optimizer> make_update_rule(const TrainOptions& options, const nn::Module& model,
                                                std::int64_t steps_per_epoch, comm::ProcessGroup& group) {
  if (!options.shard_optimizer || group.world_size() == 1) return make_update_rule(options, model, steps_per_epoch);
  std::vector<tensor::Variable> parameters;
  for (const auto& [name, parameter] : model.named_parameters()) parameters.push_back(parameter);
  const auto make = [options, steps_per_epoch](std::vector<tensor::Variable> some) {
    return make_update_rule(options, std::move(some), steps_per_epoch, std::nullopt);
  };
  return std::make_unique<ShardedOptimizer>(
      std::move(parameters), plan_buckets(parameter_sizes(model), options.buckets), group, make, options.clip_norm);
}

std::vector<std::string> parallel_notes(const TrainOptions& options, const nn::Module& model, nn::Optimizer& optimizer,
                                        int ranks) {
  std::vector<std::string> notes;
  if (options.device != "cpu") notes.push_back(tensor::describe_products());
  if (ranks > 1 && !options.reproducible && sums_exactly(options, model)) {
    notes.push_back("gradients are summed exactly: the number of ranks does not show; --no-reproducible is faster");
  }
  if (auto* const sharded = dynamic_cast<ShardedOptimizer*>(&optimizer)) {
    notes.push_back("optimizer state: " + bytes_text(sharded->state_bytes()) + " on this rank, " +
                    bytes_text(sharded->whole_state_bytes()) + " without --shard-optimizer");
  }
  if (ranks > 1 && options.comm_hook != "none") {
    std::string text = "gradients travel by " + options.comm_hook;
    if (options.comm_hook == "topk") text += ", --topk-density " + number_text(options.effective_topk_density());
    notes.push_back(text);
  }
  return notes;
}

}  // namespace tutti::trainer
