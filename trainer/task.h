// A task: which pictures, which models fit them, how they are prepared, and what is sensible where nothing is said.
//
// mnist: 28 x 28 grey digits, as x / 255. mercer: colour pictures in folders (UC Merced Land Use), normalised by the
// means and deviations of its training pictures, flipped and turned while training. Functions without state.
#pragma once

#include <tutti/nn/module.h>
#include <tutti/trainer/data/loader.h>
#include <tutti/trainer/options.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::trainer {

/// What the command line says of a task.
struct TaskHelp {
  const char* name;
  const char* about;
  const char* models;
  const char* data;
};
std::vector<TaskHelp> task_list();

/// Whether it has pictures in folders, and the options of such.
bool has_pictures(std::string_view task);

/// The options of `tutti train TASK` before anything is said. Throws UsageError for an unknown task.
///   mnist   mlp, adam, batch 64, 5 epochs
///   mercer  resnet18, sgd with momentum 0.9 and weight decay 5e-4, cosine from 0.05, batch 32, 40 epochs, augmented
TrainOptions default_options(std::string_view task);

/// Task, model and the options of picture folders. Throws UsageError.
void check_task(const TrainOptions& options);

/// Is the data there, and is its form right? Opens no picture. Throws DataError naming the path.
void check_task_data(const TrainOptions& options);

struct TaskData {
  ImageDataset train{};
  ImageDataset test{};
  std::vector<std::string> notes{};  // what was left out: the same on all ranks
  std::string cache_note{};          // this rank's own
};

/// The files where they are found, else generated pictures. Throws DataError.
TaskData load_task_data(const TrainOptions& options);

/// What is drawn by code where no files are found. Throws UsageError for options that only files can satisfy.
TaskData generated_task_data(const TrainOptions& options);

/// The folder of a run's data may lie elsewhere on each host; name, size and checksum tell whether it is the same set.
std::string data_identity(const ImageDataset& data);

/// The model, with as many outputs as the pictures have classes. Throws std::runtime_error for a
/// single class.
std::shared_ptr<nn::Module> make_task_model(const TrainOptions& options, const ImageDataset& train);

/// How the task's pictures become floats; the augmentation is for training only.
Normalisation normalisation_of(const TrainOptions& options);
Augmentation augmentation_of(const TrainOptions& options);

/// Samples of one evaluation batch: large enough to be fast, small enough for the task's models.
std::int64_t evaluation_batch_of(const TrainOptions& options);

/// "digits" or "scenes": what is generated where no data is found, and the sentence that says so.
std::string generated_name(std::string_view task);
std::string generated_sentence(std::string_view task);

}  // namespace tutti::trainer
