#include <tutti/comm/base/format.h>
#include <tutti/nn/models/models.h>
#include <tutti/trainer/data/digits.h>
#include <tutti/trainer/data/image/folder_data.h>
#include <tutti/trainer/data/mnist.h>
#include <tutti/trainer/data/scenes.h>
#include <tutti/trainer/task.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <span>

namespace tutti::trainer {
namespace {

constexpr std::array<std::string_view, 4> kMnistModels = {"mlp", "autoencoder", "cnn", "lenet5"};
constexpr std::array<std::string_view, 6> kMercerModels = {"simple_net", "resnet18",  "resnet34",
                                                           "resnet50",   "resnet101", "efficientnet_b0"};
constexpr std::int64_t kSimpleNetSide = 64;
constexpr std::int64_t kMaxImageSize = 1024;
// Of the 1680 training pictures of UC Merced at 64 x 64, by channel, in units of 255.
constexpr std::array<float, 3> kMercerMean = {0.4837F, 0.4894F, 0.4500F};
constexpr std::array<float, 3> kMercerDeviation = {0.1991F, 0.1815F, 0.1769F};

bool is_mercer(std::string_view task) { return task == "mercer"; }

void check_name(std::string_view task) {
  if (task == "mnist" || task == "mercer") return;
  throw UsageError("the task " + std::string(task) + " is not known; there are mnist and mercer");
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void check_model(const TrainOptions& options) {
  const auto known = nn::model_names();
  const auto is_known = [&](std::string_view name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  const bool mercer = is_mercer(options.task);
  std::vector<std::string> fitting;
  for (const std::string_view name : mercer ? std::span<const std::string_view>(kMercerModels) : kMnistModels) {
    if (is_known(name)) fitting.emplace_back(name);
  }
  if (std::find(fitting.begin(), fitting.end(), options.model) != fitting.end()) return;
  if (!is_known(options.model)) {
    throw UsageError("--model " + options.model + " is not known; the models for " + (mercer ? "mercer" : "MNIST") +
                     " are " + joined(fitting));
  }
  throw UsageError("--model " + options.model + " does not take " +
                   (mercer ? "colour pictures" : "MNIST's 28 x 28 pictures") + "; the models that fit are " +
                   joined(fitting));
}

void check_folder_options(const TrainOptions& options) {
  if (options.image_size < 1 || options.image_size > kMaxImageSize) {
    throw UsageError("--image-size " + std::to_string(options.image_size) + ": must be between 1 and " +
                     std::to_string(kMaxImageSize));
  }
  if (options.model == "simple_net" && options.image_size != kSimpleNetSide) {
    throw UsageError("--image-size " + std::to_string(options.image_size) +
                     ": --model simple_net takes pictures of 64 x 64 only");
  }
  if (!options.cache_dir.empty() && !options.use_cache)
    throw UsageError("--cache-dir and --no-cache exclude each other");
}

std::filesystem::path cache_folder(const TrainOptions& options) {
  if (!options.use_cache) return {};
  if (!options.cache_dir.empty()) return options.cache_dir;
  const auto home = DataSearch::from_environment({}).cache_home;
  return home.empty() ? home : home / "tutti" / "images";
}

TaskData load_mnist_data(const std::filesystem::path& folder) {
  TaskData data;
  data.train = load_mnist(folder, Split::Train);
  data.test = load_mnist(folder, Split::Test);
  return data;
}

TaskData load_folder_data(const TrainOptions& options, const std::filesystem::path& folder, int threads) {
  FolderData loaded = load_image_folder({.folder = folder,
                                         .size = options.image_size,
                                         .skip_bad = options.skip_bad_images,
                                         .test_list = options.test_list,
                                         .cache_dir = cache_folder(options),
                                         .threads = threads});
  TaskData data;
  data.train = std::move(loaded.train);
  data.test = std::move(loaded.test);
  data.cache_note = std::move(loaded.cache_note);
  if (!loaded.skipped.empty()) {
    std::string text = std::to_string(loaded.skipped.size()) + " pictures cannot be used and are left out:";
    for (const BadImage& bad : loaded.skipped) text += "\n  " + (folder / bad.path).string() + " " + bad.reason;
    data.notes.push_back(text);
  }
  if (!loaded.ignored.empty()) {
    data.notes.push_back(std::to_string(loaded.ignored.size()) + " names in " + folder.string() +
                         " are no pictures and are ignored, the first is " + loaded.ignored.front());
  }
  return data;
}

void check_scene_options(const TrainOptions& options) {
  if (options.test_list.empty() && options.image_size == kSimpleNetSide) return;
  throw UsageError(std::string(options.test_list.empty() ? "--image-size" : "--test-list") +
                   " is for pictures in files, but none were found; name their folder with --data");
}

// CRC-32 of pictures and labels.
TaskData with_checksums(TaskData data) {
  for (ImageDataset* const set : {&data.train, &data.test}) {
    uLong sum = crc32(0, nullptr, 0);
    for (const tensor::Tensor* tensor : {&set->images, &set->labels})
      sum = crc32_z(sum, static_cast<const Bytef*>(tensor->raw()), tensor->nbytes());
    set->checksum = comm::format("%08lx", sum);
  }
  return data;
}

}  // namespace

TrainOptions default_options(std::string_view task) {
  check_name(task);
  TrainOptions options;
  if (!is_mercer(task)) return options;
  options.task = task;
  options.model = "resnet18";
  options.epochs = 40;
  options.batch_size = 32;
  options.optimizer = "sgd";
  options.learning_rate = 0.05;
  options.momentum = 0.9;
  options.weight_decay = 5e-4;
  options.schedule = "cosine";
  options.augment = true;
  return options;
}

void check_task(const TrainOptions& options) {
  check_name(options.task);
  check_model(options);
  if (is_mercer(options.task)) check_folder_options(options);
}

void check_task_data(const TrainOptions& options) {
  const DataSearch search = DataSearch::from_environment(options.data);
  if (!is_mercer(options.task)) {
    (void)find_mnist(search);
    return;
  }
  const auto folder = find_image_folder(search);
  if (!folder) return check_scene_options(options);
  const ImageFolder listed = list_image_folder(*folder);
  (void)(options.test_list.empty() ? test_files_by_rule(listed) : test_files_by_list(listed, options.test_list));
}

TaskData load_task_data(const TrainOptions& options, int threads) {
  const DataSearch search = DataSearch::from_environment(options.data);
  const bool mercer = is_mercer(options.task);
  const auto folder = mercer ? find_image_folder(search) : find_mnist(search);
  if (!folder) return generated_task_data(options);
  return with_checksums(mercer ? load_folder_data(options, *folder, threads) : load_mnist_data(*folder));
}

TaskData generated_task_data(const TrainOptions& options) {
  const bool mercer = is_mercer(options.task);
  if (mercer) check_scene_options(options);
  TaskData data;
  data.train = mercer ? generate_scenes(Split::Train) : generate_digits(Split::Train);
  data.test = mercer ? generate_scenes(Split::Test) : generate_digits(Split::Test);
  return with_checksums(std::move(data));
}

std::string data_identity(const ImageDataset& data) {
  return data.name + " (" + std::to_string(data.count()) + " samples" +
         (data.checksum.empty() ? "" : ", checksum " + data.checksum) + ")";
}

std::shared_ptr<nn::Module> make_task_model(const TrainOptions& options, const ImageDataset& train) {
  if (!is_mercer(options.task)) return nn::make_model(options.model, options.seed);
  if (train.classes < 2) {
    throw std::runtime_error(train.name + " has one class only (" + train.class_names.front() +
                             "): nothing to tell apart; expected a folder for each of several classes");
  }
  return nn::make_model(options.model, options.seed, {.classes = train.classes});
}

Normalisation normalisation_of(const TrainOptions& options) {
  if (!is_mercer(options.task)) return {};
  return {.mean = {kMercerMean.begin(), kMercerMean.end()},
          .deviation = {kMercerDeviation.begin(), kMercerDeviation.end()}};
}

Augmentation augmentation_of(const TrainOptions& options) {
  return {.flip_horizontal = options.augment, .flip_vertical = options.augment, .rotate = options.augment};
}

std::int64_t evaluation_batch_of(const TrainOptions& options) { return is_mercer(options.task) ? 64 : 512; }

std::string generated_name(std::string_view task) { return is_mercer(task) ? "scenes" : "digits"; }

std::string generated_sentence(std::string_view task) {
  if (is_mercer(task)) {
    return "no folder of pictures was found (--data, $TUTTI_DATA/mercer, ./data/mercer, the cache): these are "
           "generated "
           "scenes";
  }
  return "no MNIST files were found (--data, $TUTTI_DATA, ./data/mnist, the cache): these are generated digits";
}

std::map<std::string, std::string> task_texts(const TrainOptions& options) {
  if (!is_mercer(options.task)) return {};
  return {{"image-size", std::to_string(options.image_size)}, {"augment", options.augment ? "yes" : "no"}};
}

}  // namespace tutti::trainer
