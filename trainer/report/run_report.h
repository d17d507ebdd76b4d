// RunReport: what a training run has to tell, and its JSON (`tutti train --json FILE`).
//
// Keys and their order are a promise to scripts; a key that does not apply to a run is null. Values; pure functions.
#pragma once

#include <tutti/trainer/json_fields.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::trainer {

struct EpochReport {
  int epoch = 0;          // from 1
  double train_loss = 0;  // mean over the epoch's samples, of all ranks
  std::optional<double> test_loss;
  std::optional<double> test_accuracy;
  double seconds = 0;                      // training alone, between two barriers
  std::optional<double> train_accuracy{};  // with --eval-train, and then a key at the end

  static void fields(auto& self, const auto& use) {
    use("epoch", self.epoch);
    use("train_loss", self.train_loss);
    use("test_loss", self.test_loss);
    use("test_accuracy", self.test_accuracy);
    use("seconds", self.seconds);
    use("train_accuracy", self.train_accuracy, kLeftOutIfEmpty);
  }
};

struct RunReport {
  std::string task;
  std::string model;
  std::string device;
  int world_size = 1;
  int threads = 1;
  std::int64_t batch_size = 0;  // per rank
  std::int64_t global_batch = 0;
  bool generated_data = false;
  std::vector<EpochReport> epochs;
  double seconds_training = 0;
  double samples_per_second = 0;
  std::optional<double> final_test_accuracy;
  std::vector<std::vector<std::int64_t>> confusion_matrix;  // actual x predicted; empty = null
  std::string parameter_sha256;
  std::vector<std::string> class_names;  // by label; if there are any, "class_names" is added at the end
  bool stopped = false;     // it was asked to end early, and a checkpoint holds how far it came; not in the JSON
  bool has_classes = true;  // false: the run has no accuracy, and "test_loss" is added at the end

  static void fields(auto& self, const auto& use) {
    use("task", self.task);
    use("model", self.model);
    use("device", self.device);
    use("world_size", self.world_size);
    use("threads", self.threads);
    use("batch_size", self.batch_size);
    use("global_batch", self.global_batch);
    use("generated_data", self.generated_data);
    use("epochs", self.epochs);
    use("seconds_training", self.seconds_training);
    use("samples_per_second", self.samples_per_second);
    use("final_test_accuracy", self.final_test_accuracy);
    use("confusion_matrix", self.confusion_matrix);
    use("parameter_sha256", self.parameter_sha256);
    use("class_names", self.class_names, kLeftOutIfEmpty);
  }
};

std::string to_json(const RunReport& report);
/// Throws std::runtime_error saying what is wrong with the text.
RunReport report_from_json(const std::string& text);

/// The epochs alone, for a checkpoint's history. from_json throws std::runtime_error for any other text.
std::string epochs_to_json(const std::vector<EpochReport>& epochs);
std::vector<EpochReport> epochs_from_json(const std::string& text);

}  // namespace tutti::trainer
