#include <tutti/comm/base/format.h>
#include <tutti/trainer/objective.h>
#include <tutti/trainer/report/summary.h>
#include <tutti/trainer/task.h>

#include <sstream>

namespace tutti::trainer {
namespace {

using comm::format;

}  // namespace

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<std::size_t>(place), ",");
  }
  return digits;
}

RunReport report_of(const TrainOptions& options, const ImageDataset& data, int ranks, int threads) {
  RunReport report;
  report.task = options.task;
  report.model = options.model;
  report.device = options.device;
  report.world_size = ranks;
  report.threads = threads;
  report.global_batch = options.global_batch(ranks);
  report.batch_size = (report.global_batch + ranks - 1) / ranks;
  report.generated_data = data.generated;
  report.has_classes = objective_of(options.model) == Objective::Classify;
  report.class_names = data.class_names;
  return report;
}

std::string data_note(const RunReport& report) {
  return report.generated_data ? "  [generated " + generated_name(report.task) + "]" : "";
}

std::string opening_line(const RunReport& report, const TrainOptions& options, std::int64_t parameter_count,
                         const ImageDataset& train, const ImageDataset& test) {
  std::string text = "training " + report.model + " (" + with_commas(parameter_count) + " parameters) on " +
                     with_commas(train.count()) + " samples of " + train.name + ", " + with_commas(test.count()) +
                     " to test; ";
  text += format("%d rank%s", report.world_size, report.world_size == 1 ? "" : "s");
  text += options.global_batch_size > 0 ? ", global batch" : " x batch " + std::to_string(report.batch_size) + " =";
  text += " " + std::to_string(report.global_batch) + ", ";
  text += options.optimizer + format(" lr %g, ", options.effective_learning_rate());
  if (options.schedule != "none") text += options.schedule + " schedule, ";
  if (options.augment) text += "flips and quarter turns, ";
  text += "seed " + std::to_string(options.seed) +
          format(", %d thread%s a rank", report.threads, report.threads == 1 ? "" : "s");
  if (report.generated_data) {
    text += "\n" + generated_sentence(report.task);
  }
  return text;
}

std::string resumed_line(const ResumedCheckpoint& checkpoint, int ranks) {
  std::string text = "resumed after epoch " + std::to_string(checkpoint.epoch);
  if (checkpoint.step > 0) {
    text += " and step " + std::to_string(checkpoint.step) + " of " + std::to_string(checkpoint.steps_per_epoch);
  }
  text += " from " + checkpoint.folder.string();
  if (checkpoint.world_size != ranks) {
    text += "; that run had " + std::to_string(checkpoint.world_size) + " ranks, this one has " +
            std::to_string(ranks) + ", the global batch is the same";
  }
  return text;
}

std::string stopped_line(const std::filesystem::path& checkpoint, int epoch, std::int64_t steps_per_epoch) {
  const auto position = checkpoint_position(checkpoint.filename().string());
  return "stopped as asked, in epoch " + std::to_string(epoch) + " after step " + std::to_string(position->step) +
         " of " + std::to_string(steps_per_epoch) + "; " + checkpoint.string() +
         " is complete: go on from there with --resume";
}

std::string summary(const RunReport& report, const Evaluation& last, std::size_t columns) {
  std::string text;
  if (report.has_classes) text = "\n" + last.confusion.to_table(report.class_names, columns) + "\n";
  const int epochs = report.epochs.empty() ? 0 : report.epochs.back().epoch;
  text += report.has_classes ? format("final test accuracy %.4f", last.confusion.accuracy())
                             : format("final test loss %.6f", last.loss);
  text += format(" after %d epoch%s, %.2f s of training", epochs, epochs == 1 ? "" : "s", report.seconds_training);
  if (report.samples_per_second > 0) {
    text += " (" + with_commas(static_cast<std::int64_t>(report.samples_per_second)) + " samples/s)";
  }
  text += data_note(report) + "\nparameters sha256 " + report.parameter_sha256;
  if (report.world_size > 1) text += format(", the same on all %d ranks", report.world_size);
  return text;
}

}  // namespace tutti::trainer
