#include <tutti/trainer/same_options.h>
#include <tutti/trainer/tensor_comm.h>

#include <charconv>
#include <concepts>
#include <stdexcept>
#include <vector>

namespace tutti::trainer {
namespace {

std::string text_of(bool value) { return value ? "yes" : "no"; }
std::string text_of(const std::string& value) { return value.empty() ? "none" : value; }
std::string text_of(const std::filesystem::path& value) { return text_of(value.string()); }
template <typename T>
requires(std::integral<T> || std::floating_point<T>) std::string text_of(T value) {
  char text[40];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
template <typename T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "not given";
}

}  // namespace

comm::Settings options_of_all_ranks(const TrainOptions& options) {
  // A new option does not compile here until it is compared below, or is among the ranks' own (same_options.h).
  const auto& [task, model, data, epochs, batch_size, micro_batch_size, optimizer, learning_rate, momentum, nesterov,
               weight_decay, schedule, schedule_every, schedule_factor, warm_up_epochs, clip_norm, label_smoothing,
               seed, reproducible, drop_last, padding, comm_hook, topk_density, shard_optimizer, sync_batch_norm,
               device, threads, workers, checkpoint_dir, checkpoint_every, keep_checkpoints, resume, json, run_dir,
               timeout, trace, encrypt, chaos, buckets, image_size, augment, test_list, skip_bad_images, cache_dir,
               use_cache] = options;
  const auto& [first_bucket_bytes, bucket_cap_bytes] = buckets;
  return {{"task", task},
          {"--model", model},
          {"--epochs", text_of(epochs)},
          {"--batch-size", text_of(batch_size)},
          {"--micro-batch-size", text_of(micro_batch_size)},
          {"--optimizer", optimizer},
          {"--lr", text_of(learning_rate)},
          {"--momentum", text_of(momentum)},
          {"--nesterov", text_of(nesterov)},
          {"--weight-decay", text_of(weight_decay)},
          {"--schedule", schedule},
          {"--schedule-every", text_of(schedule_every)},
          {"--schedule-factor", text_of(schedule_factor)},
          {"--warm-up", text_of(warm_up_epochs)},
          {"--clip-norm", text_of(clip_norm)},
          {"--label-smoothing", text_of(label_smoothing)},
          {"--seed", text_of(seed)},
          {"--reproducible", text_of(reproducible)},
          {"--drop-last", text_of(drop_last)},
          {"--padding", text_of(padding)},
          {"--comm-hook", comm_hook},
          {"--topk-density", text_of(topk_density)},
          {"--shard-optimizer", text_of(shard_optimizer)},
          {"--sync-batch-norm", text_of(sync_batch_norm)},
          {"--device", device.substr(0, device.find(':'))},  // which one of its kind is the rank's own
          {"--checkpoint-dir", text_of(checkpoint_dir)},
          {"--checkpoint-every", text_of(checkpoint_every)},
          {"--keep-checkpoints", text_of(keep_checkpoints)},
          {"--resume", text_of(resume)},
          {"--run-dir", text_of(run_dir)},
          {"--bucket-cap", text_of(bucket_cap_bytes)},
          {"first bucket", text_of(first_bucket_bytes)},
          {"--image-size", text_of(image_size)},
          {"--augment", text_of(augment)},
          {"--skip-bad-images", text_of(skip_bad_images)}};
}

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

}  // namespace tutti::trainer
