#include <tutti/comm/base/format.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data/image/image_folder.h>
#include <tutti/trainer/evaluate_checkpoint.h>
#include <tutti/trainer/option_table.h>
#include <tutti/trainer/report/run_data.h>
#include <tutti/trainer/task.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

/// What the model and its data depend on; the rest of the options is for training.
TrainOptions options_from(const CheckpointState& state, const std::string& folder) {
  try {
    TrainOptions options = default_options(text_in(state.options, "task"));
    options.model = text_in(state.options, "model");
    const std::string size = text_in(state.options, "image-size");
    if (!size.empty()) std::from_chars(size.data(), size.data() + size.size(), options.image_size);
    check_values(options);
    check_task(options);
    return options;
  } catch (const UsageError& error) {
    throw std::runtime_error("the checkpoint " + folder + " cannot be evaluated by this version: " + error.what());
  }
}

/// The options that the run left beside its checkpoints (run_recorder.h); empty if there are none.
OptionTexts run_options_beside(const fs::path& folder) {
  const fs::path file = fs::absolute(folder).lexically_normal().parent_path().parent_path() / "options.json";
  return fs::exists(file) ? read_option_texts(file) : OptionTexts{};
}

TaskData load_data(const EvaluationRequest& request, TrainOptions& options, const std::string& trained_on,
                   const fs::path& folder) {
  options.data = request.data;
  options.test_list = request.test_list;
  if (options.data.empty()) {
    if (trained_on.starts_with("generated ")) return generated_task_data(options);
    const OptionTexts run = run_options_beside(folder);
    const fs::path data = text_in(run, "data folder");
    if (fs::exists(data)) options.data = data;
    if (options.test_list.empty()) options.test_list = text_in(run, "test-list");
    options.skip_bad_images = text_in(run, "skip-bad-images") == "yes";
  }
  return load_task_data(options);
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// Collective.
void add_set(CheckpointEvaluation& evaluation, const ImageDataset& set, nn::Module& model, comm::ProcessGroup& group,
             Progress* progress) {
  const TrainOptions& options = evaluation.options;
  Loader loader(set, std::make_shared<EvaluationSampler>(set.count(), group.world_size(), group.rank()),
                {.batch_size = evaluation_batch_of(options), .normalisation = normalisation_of(options)});
  Evaluation part = evaluate(group, model, objective_of(options.model), loader, progress);
  const auto before = static_cast<double>(evaluation.samples), added = static_cast<double>(set.count());
  double& loss = evaluation.result.loss;
  loss = before == 0 ? part.loss : (loss * before + part.loss * added) / (before + added);
  evaluation.samples += set.count();
  evaluation.data += (evaluation.data.empty() ? "" : " and ") + set.name;
  const std::span<std::int64_t> sums = evaluation.result.confusion.counts(), counts = part.confusion.counts();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += counts[i];
}

std::string class_name(const CheckpointEvaluation& evaluation, std::size_t label) {
  const auto& names = evaluation.class_names;
  return label < names.size() ? names[label] : std::to_string(label);
}

}  // namespace

fs::path find_checkpoint(const fs::path& path) {
  if (!fs::is_directory(path)) {
    throw std::runtime_error(path.string() +
                             " is no folder; give a checkpoint, a folder of checkpoints, or a run's "
                             "folder (--run-dir)");
  }
  for (const fs::path& dir : {path, path / "checkpoints"}) {
    if (const auto newest = newest_checkpoint(dir)) return *newest;
  }
  if (fs::exists(path / "model.safetensors")) return path;
  throw std::runtime_error("there is no checkpoint in " + path.string() + ", nor is it one");
}

CheckpointEvaluation evaluate_checkpoint(const EvaluationRequest& request, comm::ProcessGroup& group) {
  const fs::path folder = find_checkpoint(request.checkpoint);
  const Checkpoint checkpoint = read_checkpoint(folder);
  TrainOptions options = options_from(checkpoint.state, folder.string());
  const std::string trained_on = text_in(checkpoint.state.options, "data");
  const TaskData data = load_data(request, options, trained_on, folder);

  std::string note;
  if (const std::string found = data_identity(data.train); found != trained_on) {
    note = "the model was trained on " + trained_on + ", these are data of " + found;
    if (request.data.empty()) throw std::runtime_error(note + "; name the folder of the data with --data");
  }
  const auto model = make_task_model(options, data.train);
  assign_tensors(model_tensors(*model), checkpoint.model, (folder / "model.safetensors").string());
  const Objective objective = objective_of(options.model);
  CheckpointEvaluation evaluation{.folder = folder,
                                  .options = options,
                                  .epoch = checkpoint.state.epoch,
                                  .step = checkpoint.state.step,
                                  .split = request.split,
                                  .generated = data.test.generated,
                                  .class_names = data.test.class_names,
                                  .has_classes = objective == Objective::Classify,
                                  .note = note,
                                  .result = {.confusion = ConfusionMatrix(data.test.classes)}};
  const bool one_set = options.test_list == kAllFiles;  // once is enough, then
  if (request.split != "test" && !one_set) add_set(evaluation, data.train, *model, group, request.progress);
  if (request.split != "train" || one_set) add_set(evaluation, data.test, *model, group, request.progress);
  return evaluation;
}

std::string evaluation_to_json(const CheckpointEvaluation& evaluation, int world_size) {
  using Json = nlohmann::ordered_json;
  const ConfusionMatrix& confusion = evaluation.result.confusion;
  const Json json = {{"checkpoint", evaluation.folder.string()},
                     {"epoch", evaluation.epoch},
                     {"step", evaluation.step},
                     {"task", evaluation.options.task},
                     {"model", evaluation.options.model},
                     {"data", evaluation.data},
                     {"generated_data", evaluation.generated},
                     {"world_size", world_size},
                     {"samples", evaluation.samples},
                     {"test_loss", evaluation.result.loss},
                     {"test_accuracy", evaluation.has_classes ? Json(confusion.accuracy()) : Json(nullptr)},
                     {"confusion_matrix", evaluation.has_classes ? Json(confusion.rows()) : Json(nullptr)},
                     {"class_names", evaluation.class_names.empty() ? Json(nullptr) : Json(evaluation.class_names)},
                     {"split", evaluation.split}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string evaluation_to_csv(const CheckpointEvaluation& evaluation) {
  if (!evaluation.has_classes) return comm::format("test_loss\r\n%.9g\r\n", evaluation.result.loss);
  const auto rows = evaluation.result.confusion.rows();
  std::string csv = "actual";
  for (std::size_t i = 0; i < rows.size(); ++i) csv += "," + csv_field(class_name(evaluation, i));
  csv += "\r\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    csv += csv_field(class_name(evaluation, i));
    for (const std::int64_t count : rows[i]) csv += "," + std::to_string(count);
    csv += "\r\n";
  }
  return csv;
}

}  // namespace tutti::trainer
