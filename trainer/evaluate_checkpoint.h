// evaluate_checkpoint: a model from its checkpoint, on the data of the task that it was trained for.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/data/dataset.h>
#include <tutti/trainer/evaluate.h>
#include <tutti/trainer/options.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tutti::trainer {

struct EvaluationRequest {
  std::filesystem::path checkpoint{};  // as find_checkpoint takes it
  std::filesystem::path data{};  // empty: where the run found its data, if that is still there, else the usual places
  std::filesystem::path test_list{};  // mercer: as in training; empty: as the run had it
  std::string split = "test";         // or "train", without augmentation, or "all": both sets as one
  Progress* progress = nullptr;       // of this rank; may be null
};

struct CheckpointEvaluation {
  std::filesystem::path folder;  // of the checkpoint
  TrainOptions options;          // what its state tells: task, model, data and form of the pictures
  int epoch = 0;                 // whole epochs that it had done
  std::int64_t step = 0;         // and steps of the next
  std::string split;
  std::string data{};  // the names of the sets
  std::int64_t samples = 0;
  bool generated = false;
  std::vector<std::string> class_names;
  bool has_classes = true;
  std::string note;  // a sentence if the data is not what the model was trained on, else empty
  Evaluation result;
};

/// A checkpoint's folder itself, else the newest one in a folder of checkpoints or in a run's folder. Throws
/// std::runtime_error naming the path if there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

/// Collective: every rank reads the checkpoint and the data, and takes its part of the samples; every rank gets the
/// same result, of the test set the one that training printed after that epoch. Throws std::runtime_error (DataError
/// among them): a damaged checkpoint, data that is not found, a training set that differs from the run's although no
/// folder was named, a model that does not fit.
CheckpointEvaluation evaluate_checkpoint(const EvaluationRequest& request, comm::ProcessGroup& group);

/// One JSON object: checkpoint, epoch, step, task, model, data, generated_data, world_size, samples, test_loss,
/// test_accuracy, confusion_matrix, class_names, split; null where a model does not classify. The result is of `split`,
/// whatever its key says.
std::string evaluation_to_json(const CheckpointEvaluation& evaluation, int world_size);

/// The confusion matrix: a row for each actual class, a column for each predicted one, both with their names or
/// numbers (RFC 4180). Without classes one line with the loss.
std::string evaluation_to_csv(const CheckpointEvaluation& evaluation);

}  // namespace tutti::trainer
