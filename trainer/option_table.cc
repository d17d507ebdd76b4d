#include <tutti/comm/base/format.h>
#include <tutti/trainer/data/image/image_folder.h>
#include <tutti/trainer/option_table.h>
#include <tutti/trainer/task.h>

#include <algorithm>
#include <concepts>
#include <iterator>
#include <vector>

namespace tutti::trainer {
namespace {

using namespace option_traits;
using T = TrainOptions;

constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();
constexpr double kBelowOne = 1 - std::numeric_limits<double>::epsilon() / 2;
constexpr double kNoLimit = std::numeric_limits<double>::max();
constexpr OptionCheck kAtLeast0{0, kNoLimit, "at least 0"}, kAtLeast1{1, kNoLimit, "at least 1"};
constexpr OptionCheck kAbove0{kAboveZero, kNoLimit, "above 0"}, kBytes{1, kNoLimit, "at least 1 byte"};
constexpr OptionCheck kThreads{0, 1024, "at least 0, and at most 1024"};

constexpr OptionCheck one_of(const char* words) { return {.words = words}; }
constexpr OptionCheck range(double least, double most, const char* must_be) { return {least, most, must_be}; }

std::string text_of(const std::filesystem::path& value) {
  return value.empty() ? "" : std::filesystem::absolute(value).lexically_normal().string();
}

constexpr TrainOption kTable[] = {
    {"task", &T::task, kResume},
    {"model", &T::model, kResume, ""},
    {"data", &T::data, kOwn, ""},
    {"image-size", &T::image_size, kResume | kPictures, "pictures are resized to this many pixels a side",
     range(1, 1024, "between 1 and 1024")},
    {"augment", &T::augment, kResume | kPictures, "flips and quarter turns while training [on]"},
    {"test-list",
     &T::test_list,
     kRecord | kIfGiven | kOwn | kPictures,
     "file with the pictures to test on, one relative path a line; all: train and test on every one [those whose "
     "number "
     "ends in 4 or 9]",
     {},
     [](const T& o) { return o.test_list == kAllFiles ? kAllFiles : text_of(o.test_list); }},
    {"sync-batch-norm", &T::sync_batch_norm, kResume | kIfGiven | kPictures,
     "batch norm over the samples of all ranks, not of each"},
    {"skip-bad-images", &T::skip_bad_images, kRecord | kIfGiven | kPictures,
     "leave out pictures that cannot be decoded, and list them"},
    {"cache-dir", &T::cache_dir, kOwn | kPictures, "where decoded pictures are kept [the user's cache]"},
    {"cache", &T::use_cache, kOwn | kPictures, "--no-cache: decode all pictures in every run"},
    {"epochs", &T::epochs, kRecord, "passes over the data, those before a resume included", kAtLeast1},
    {"batch-size", &T::batch_size, kRecord, "samples a step on each rank", kAtLeast1},
    {"global-batch-size", &T::global_batch_size, kRecord | kIfGiven,
     "samples a step on all ranks together, which need not divide it, in place of --batch-size", kAtLeast0},
    {"micro-batch-size", &T::micro_batch_size, kRecord | kIfGiven,
     "samples of a step that a rank computes on together; fewer take less memory [all]", kAtLeast0},
    {"optimizer", &T::optimizer, kResume,
     "adam, adamw, sgd or adadelta; naming another than the task's takes its own defaults",
     one_of("adam adamw sgd adadelta")},
    {"lr", &T::learning_rate, kResume, "learning rate [adam, adamw 0.001; sgd 0.01; adadelta 1]", kAbove0,
     [](const T& o) { return number_text(o.effective_learning_rate()); }},
    {"momentum", &T::momentum, kResume, "for sgd", range(0, kBelowOne, "at least 0 and below 1")},
    {"nesterov", &T::nesterov, kResume | kIfGiven, "look ahead, for sgd with momentum"},
    {"weight-decay", &T::weight_decay, kResume, "as PyTorch's [adamw 0.01, else 0]", kAtLeast0,
     [](const T& o) { return number_text(o.effective_weight_decay()); }},
    {"schedule", &T::schedule, kResume | kIfGiven, "of the learning rate: none, step, cosine or one-cycle",
     one_of("none step cosine one-cycle")},
    {"schedule-every", &T::schedule_every, kResume, "step: epochs from drop to drop [a third of --epochs]",
     range(0, kNoLimit, "at least 1 epoch"),
     [](const T& o) { return o.schedule == "step" ? std::to_string(o.effective_schedule_every()) : ""; }},
    {"schedule-factor", &T::schedule_factor, kResume, "step: what a drop multiplies by", kAbove0,
     [](const T& o) { return o.schedule == "step" ? number_text(o.schedule_factor) : ""; }},
    {"warm-up", &T::warm_up_epochs, kResume | kIfGiven, "epochs in which the learning rate climbs",
     range(0, kNoLimit, "at least 0 epochs")},
    {"clip-norm", &T::clip_norm, kResume | kIfGiven, "longest gradient; longer ones are shortened to it", kAbove0},
    {"label-smoothing", &T::label_smoothing, kResume | kIfGiven,
     "part of each label that all classes share, in training", range(0, 1, "from 0 to 1")},
    {"seed", &T::seed, kResume, "of the first weights and of the sample order"},
    {"reproducible", &T::reproducible, kResume | kIfGiven,
     "the same parameters, bit for bit, on any number of ranks with the same global batch; the default where model and "
     "options allow it, and the model has no batch norm. --no-reproducible: faster sums"},
    {"comm-hook", &T::comm_hook, kResume | kIfGiven, "how gradients travel: none, bf16, fp16 or topk",
     one_of("none bf16 fp16 topk")},
    {"topk-density", &T::topk_density, kResume, "topk: part of each parameter's numbers that is sent [0.05]",
     range(kAboveZero, 1, "above 0, and at most 1"),
     [](const T& o) { return o.comm_hook == "topk" ? number_text(o.effective_topk_density()) : ""; }},
    {"shard-optimizer", &T::shard_optimizer, kRecord | kIfGiven,
     "each rank keeps its share of the optimizer's state (ZeRO-1)"},
    {"drop-last", &T::drop_last, kResume | kIfGiven,
     "leave out the last, incomplete batch of all ranks; else some samples are repeated"},
    {"padding", &T::padding, kResume | kIfGiven, "--no-padding: take each sample once, on some ranks one more"},
    {"device", &T::device, kRecord, "cpu, or cuda: the ranks of a host take turns on its GPUs; cuda:1 names one"},
    {"tf32", &T::tf32, kRecord | kIfGiven, "products on a GPU with 10 of 23 bits of their factors, as TUTTI_TF32=1"},
    {"bf16", &T::bf16, kRecord | kIfGiven,
     "matrix products on a GPU with 7 bits, as TUTTI_BF16=1; convolutions as by --tf32"},
    {"threads", &T::threads, kOwn, "compute threads a rank [CPUs / ranks of this host]", kThreads},
    {"workers", &T::workers, kRecord | kOwn, "threads that prepare batches; 0: the training thread", kThreads},
    {"checkpoint-dir", &T::checkpoint_dir, kRecord | kIfGiven, "write a checkpoint after every epoch"},
    {"checkpoint-every", &T::checkpoint_every, kRecord | kIfGiven, "and after so many steps; 0: after epochs only",
     kAtLeast0},
    {"keep-checkpoints", &T::keep_checkpoints, kRecord, "how many of the newest stay; 0: all", kAtLeast0},
    {"resume", &T::resume, kRecord | kIfGiven, "continue from the newest checkpoint there"},
    {"weights", &T::weights, kRecord | kIfGiven | kOwn,
     "safetensors file that the model begins with, as torchvision's; its last layer may have other classes"},
    {"eval-train", &T::eval_train, kRecord | kIfGiven,
     "after every epoch, show the accuracy on the training set, without augmentation, too"},
    {"log-every", &T::log_every, kOwn,
     "print a line after so many steps, and every rank's into the log of --run-dir; 0: after epochs only", kAtLeast0},
    {"run-dir", &T::run_dir, 0,
     "folder for records of every step, TensorBoard events and a log of all ranks; and for report.json and "
     "checkpoints/, where not named otherwise"},
    {"json", &T::json, kRecord | kIfGiven | kOwn, "write the results to this file"},
    // Of the next two the ranks are compared when the group forms.
    {"trace", &T::trace, kRecord | kIfGiven | kOwn,
     "write what all ranks communicated to this file, for ui.perfetto.dev"},
    {"encrypt", &T::encrypt, kRecord | kIfGiven | kOwn, "TLS on TCP connections between ranks, as TUTTI_ENCRYPT=1"},
    {"chaos", &T::chaos, kOwn,
     "what goes wrong on purpose, at a step of the run (from 0): kill:rank=1,step=20, freeze:rank=1,step=20, "
     "slow:rank=1,factor=3, delay:rank=1,ms=200; several with ;"},
    {"timeout", &T::timeout, kRecord | kOwn, "seconds until a rank that does not answer is an error [300]"},
    {"bucket-cap", &BucketLimits::bucket_cap_bytes, kRecord, "largest gradient bucket in bytes", kBytes},
    {"first bucket", &BucketLimits::first_bucket_bytes, kRecord, nullptr, kBytes},
};

/// Does not compile when an option is new, until it is counted: it must have a row.
[[maybe_unused]] void count_options(const TrainOptions& options) {
  [[maybe_unused]] const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, c0, c1,
                                c2, c3, c4, c5, c6, c7, c8, c9, d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, e0, e1, e2, e3,
                                e4, e5, e6, e7, e8, e9, f0] = options;
  static_assert(std::size(kTable) == 50 + 2, "a row for each option, and two for the buckets");
}

std::string text_of(bool value) { return value ? "yes" : "no"; }
std::string text_of(const std::string& value) { return value; }
std::string text_of(double value) { return number_text(value); }
std::string text_of(std::chrono::milliseconds value) { return std::to_string(value.count()) + " ms"; }
std::string text_of(std::integral auto value) { return std::to_string(value); }
template <typename Value>
std::string text_of(const std::optional<Value>& value) {
  return value ? text_of(*value) : "not given";
}

std::string value_text(const TrainOption& option, const TrainOptions& options) {
  return with_value(option, options, [](const auto& value) { return text_of(value); });
}

/// "" where nothing is told of the option.
std::string told_text(const TrainOption& option, const TrainOptions& options) {
  static const TrainOptions plain;
  if (option.is(kPictures) && !has_pictures(options.task)) return "";
  if (option.is(kIfGiven) && value_text(option, options) == value_text(option, plain)) return "";
  return option.text != nullptr ? option.text(options) : value_text(option, options);
}

OptionTexts told_texts(unsigned trait, const TrainOptions& options) {
  OptionTexts texts;
  for (const TrainOption& option : kTable) {
    const std::string text = option.is(trait) ? told_text(option, options) : "";
    if (!text.empty()) texts.emplace(option.name, text);
  }
  return texts;
}

void check(const TrainOption& option, const std::string& value) {
  const std::vector<std::string> known = comm::split(option.check.words, ' ');
  if (option.check.words.empty() || std::find(known.begin(), known.end(), value) != known.end()) return;
  std::string list;
  for (std::size_t i = 0; i < known.size(); ++i) {
    list += (i == 0 ? "" : i + 1 == known.size() ? " and " : ", ") + known[i];
  }
  throw UsageError("--" + std::string(option.name) + " " + value + " is not known; there are " + list);
}
template <typename Number>
requires std::is_arithmetic_v<Number>
void check(const TrainOption& option, Number value) {
  const auto number = static_cast<double>(value);
  if (number >= option.check.least && number <= option.check.most) return;
  throw UsageError("--" + std::string(option.name) + " " + text_of(value) + ": must be " + option.check.must_be);
}
template <typename Value>
void check(const TrainOption& option, const std::optional<Value>& value) {
  if (value) check(option, *value);
}
void check(const TrainOption&, const std::filesystem::path&) {}
void check(const TrainOption&, std::chrono::milliseconds value) {
  if (value.count() <= 0) throw UsageError("--timeout: must be above 0 seconds");
}

}  // namespace

std::span<const TrainOption> option_table() { return kTable; }

void check_values(const TrainOptions& options) {
  for (const TrainOption& option : kTable) {
    with_value(option, options, [&](const auto& value) { check(option, value); });
  }
}

std::string number_text(double value) {
  const std::string shorter = comm::format("%g", value);
  return comm::parse_number(shorter) == value ? shorter : comm::format("%.17g", value);
}

comm::Settings options_of_all_ranks(const TrainOptions& options) {
  comm::Settings settings;
  for (const TrainOption& option : kTable) {
    if (option.is(kOwn)) continue;
    std::string text = value_text(option, options);
    if (option.name == "device") text.resize(std::min(text.size(), text.find(':')));  // the index is a rank's own
    settings.push_back({(option.help != nullptr ? "--" : "") + std::string(option.name), text.empty() ? "none" : text});
  }
  return settings;
}

OptionTexts options_that_must_agree(const TrainOptions& options, int world_size, const std::string& data_name) {
  OptionTexts texts = told_texts(kResume, options);
  texts["data"] = data_name;
  texts["global batch"] = std::to_string(options.global_batch(world_size));
  const bool ends_with_run = options.schedule == "cosine" || options.schedule == "one-cycle";
  if (ends_with_run) texts["epochs of the schedule"] = std::to_string(options.epochs);
  return texts;
}

OptionTexts recorded_options(const TrainOptions& options, const OptionTexts& agreed, int world_size, int threads) {
  OptionTexts texts = agreed;
  texts.merge(told_texts(kRecord, options));
  texts["ranks"] = std::to_string(world_size);
  texts["threads"] = std::to_string(threads);
  if (!options.data.empty()) texts["data folder"] = text_of(options.data);
  return texts;
}

}  // namespace tutti::trainer
