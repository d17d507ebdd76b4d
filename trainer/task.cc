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

namespace tutti::trainer {
namespace {

constexpr std::int64_t kSimpleNetSide = 64;
// Of the 1680 training pictures of UC Merced at 64 x 64, by channel, in units of 255.
constexpr std::array<float, 3> kMercerMean = {0.4837F, 0.4894F, 0.4500F};
constexpr std::array<float, 3> kMercerDeviation = {0.1991F, 0.1815F, 0.1769F};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::filesystem::path cache_folder(const TrainOptions& options) {
  if (!options.use_cache) return {};
  if (!options.cache_dir.empty()) return options.cache_dir;
  const auto home = DataSearch::from_environment({}).cache_home;
  return home.empty() ? home : home / "tutti" / "images";
}

TaskData load_mnist_data(const TrainOptions&, const std::filesystem::path& folder) {
  TaskData data;
  data.train = load_mnist(folder, Split::Train);
  data.test = load_mnist(folder, Split::Test);
  return data;
}

TaskData load_folder_data(const TrainOptions& options, const std::filesystem::path& folder) {
  FolderData loaded = load_image_folder({.folder = folder,
                                         .size = options.image_size,
                                         .skip_bad = options.skip_bad_images,
                                         .test_list = options.test_list,
                                         .cache_dir = cache_folder(options)});
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

void check_folder_data(const TrainOptions& options, const std::filesystem::path& folder) {
  (void)test_files(list_image_folder(folder), options.test_list);
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

void set_mercer_defaults(TrainOptions& options) {
  options.model = "resnet18";
  options.epochs = 40;
  options.batch_size = 32;
  options.optimizer = "sgd";
  options.learning_rate = 0.05;
  options.momentum = 0.9;
  options.weight_decay = 5e-4;
  options.schedule = "cosine";
  options.augment = true;
}

struct Task {
  TaskHelp help;
  std::vector<std::string> models;
  const char* data_name;  // in texts about models
  const char* input;      // likewise
  bool pictures;
  void (*set_defaults)(TrainOptions&);
  std::optional<std::filesystem::path> (*find)(const DataSearch&);
  void (*check_data)(const TrainOptions&, const std::filesystem::path&);
  TaskData (*load)(const TrainOptions&, const std::filesystem::path&);
  ImageDataset (*generate)(Split);
  const char* generated;
  const char* generated_sentence;
  std::int64_t evaluation_batch;
};

const std::vector<Task>& tasks() {
  static const std::vector<Task> table = {
      {.help = {"mnist", "handwritten digits, 28 x 28 pictures", "mlp, autoencoder, cnn or lenet5",
                "folder of the MNIST files; else $TUTTI_DATA, ./data/mnist, the user's cache"},
       .models = {"mlp", "autoencoder", "cnn", "lenet5"},
       .data_name = "MNIST",
       .input = "MNIST's 28 x 28 pictures",
       .pictures = false,
       .set_defaults = [](TrainOptions&) {},
       .find = find_mnist,
       .check_data = [](const TrainOptions&, const std::filesystem::path&) {},
       .load = load_mnist_data,
       .generate = generate_digits,
       .generated = "digits",
       .generated_sentence =
           "no MNIST files were found (--data, $TUTTI_DATA, ./data/mnist, the cache): these are generated digits",
       .evaluation_batch = 512},
      {.help = {"mercer",
                "land use from the air, colour pictures in folders; sgd with lr 0.05 and weight decay 5e-4 unless said "
                "otherwise",
                "simple_net, resnet18, resnet34, resnet50, resnet101 or efficientnet_b0",
                "folder with a folder of PNG, JPEG or TIFF files for each class; else $TUTTI_DATA/mercer, "
                "./data/mercer, the user's cache"},
       .models = {"simple_net", "resnet18", "resnet34", "resnet50", "resnet101", "efficientnet_b0"},
       .data_name = "mercer",
       .input = "colour pictures",
       .pictures = true,
       .set_defaults = set_mercer_defaults,
       .find = find_image_folder,
       .check_data = check_folder_data,
       .load = load_folder_data,
       .generate = generate_scenes,
       .generated = "scenes",
       .generated_sentence = "no folder of pictures was found (--data, $TUTTI_DATA/mercer, ./data/mercer, the cache): "
                             "these are generated scenes",
       .evaluation_batch = 64},
  };
  return table;
}

const Task& task_named(std::string_view name) {
  for (const Task& task : tasks()) {
    if (task.help.name == name) return task;
  }
  throw UsageError("the task " + std::string(name) + " is not known; there are mnist and mercer");
}

void check_model(const TrainOptions& options) {
  const Task& task = task_named(options.task);
  const auto has = [&](const auto& names) {
    return std::find(names.begin(), names.end(), options.model) != names.end();
  };
  if (has(task.models)) return;
  if (!has(nn::model_names())) {
    throw UsageError("--model " + options.model + " is not known; the models for " + task.data_name + " are " +
                     joined(task.models));
  }
  throw UsageError("--model " + options.model + " does not take " + task.input + "; the models that fit are " +
                   joined(task.models));
}

}  // namespace

std::vector<TaskHelp> task_list() {
  std::vector<TaskHelp> list;
  for (const Task& task : tasks()) list.push_back(task.help);
  return list;
}

bool has_pictures(std::string_view task) { return task_named(task).pictures; }

TrainOptions default_options(std::string_view task) {
  TrainOptions options;
  options.task = task;
  task_named(task).set_defaults(options);
  return options;
}

void check_task(const TrainOptions& options) {
  check_model(options);
  if (!has_pictures(options.task)) return;
  if (options.model == "simple_net" && options.image_size != kSimpleNetSide) {
    throw UsageError("--image-size " + std::to_string(options.image_size) +
                     ": --model simple_net takes pictures of 64 x 64 only");
  }
  if (!options.cache_dir.empty() && !options.use_cache)
    throw UsageError("--cache-dir and --no-cache exclude each other");
}

void check_task_data(const TrainOptions& options) {
  const Task& task = task_named(options.task);
  const auto folder = task.find(DataSearch::from_environment(options.data));
  if (folder) return task.check_data(options, *folder);
  if (task.pictures) check_scene_options(options);
}

TaskData load_task_data(const TrainOptions& options) {
  const Task& task = task_named(options.task);
  const auto folder = task.find(DataSearch::from_environment(options.data));
  return folder ? with_checksums(task.load(options, *folder)) : generated_task_data(options);
}

TaskData generated_task_data(const TrainOptions& options) {
  const Task& task = task_named(options.task);
  if (task.pictures) check_scene_options(options);
  TaskData data;
  data.train = task.generate(Split::Train);
  data.test = task.generate(Split::Test);
  return with_checksums(std::move(data));
}

std::string data_identity(const ImageDataset& data) {
  return data.name + " (" + std::to_string(data.count()) + " samples" +
         (data.checksum.empty() ? "" : ", checksum " + data.checksum) + ")";
}

std::shared_ptr<nn::Module> make_task_model(const TrainOptions& options, const ImageDataset& train) {
  if (!has_pictures(options.task)) return nn::make_model(options.model, options.seed);
  if (train.classes < 2) {
    throw std::runtime_error(train.name + " has one class only (" + train.class_names.front() +
                             "): nothing to tell apart; expected a folder for each of several classes");
  }
  return nn::make_model(options.model, options.seed, {.classes = train.classes});
}

Normalisation normalisation_of(const TrainOptions& options) {
  if (!has_pictures(options.task)) return {};
  return {.mean = {kMercerMean.begin(), kMercerMean.end()},
          .deviation = {kMercerDeviation.begin(), kMercerDeviation.end()}};
}

Augmentation augmentation_of(const TrainOptions& options) {
  return {.flip_horizontal = options.augment, .flip_vertical = options.augment, .rotate = options.augment};
}

std::int64_t evaluation_batch_of(const TrainOptions& options) { return task_named(options.task).evaluation_batch; }

std::string generated_name(std::string_view task) { return task_named(task).generated; }

std::string generated_sentence(std::string_view task) { return task_named(task).generated_sentence; }

}  // namespace tutti::trainer
