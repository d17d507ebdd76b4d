#include <tutti/trainer/report/run_report.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::trainer {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

std::optional<double> optional_number(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value.is_null() ? std::nullopt : std::optional<double>(value.get<double>());
}

Json epochs_json(const std::vector<EpochReport>& epochs) {
  Json list = Json::array();
  for (const EpochReport& epoch : epochs) {
    list.push_back({{"epoch", epoch.epoch},
                    {"train_loss", epoch.train_loss},
                    {"test_loss", or_null(epoch.test_loss)},
                    {"test_accuracy", or_null(epoch.test_accuracy)},
                    {"seconds", epoch.seconds}});
    if (epoch.train_accuracy) list.back()["train_accuracy"] = *epoch.train_accuracy;
  }
  return list;
}

}  // namespace

std::string to_json(const RunReport& report) {
  Json json = {{"task", report.task},
               {"model", report.model},
               {"device", report.device},
               {"world_size", report.world_size},
               {"threads", report.threads},
               {"batch_size", report.batch_size},
               {"global_batch", report.global_batch},
               {"generated_data", report.generated_data},
               {"epochs", epochs_json(report.epochs)},
               {"seconds_training", report.seconds_training},
               {"samples_per_second", report.samples_per_second},
               {"final_test_accuracy", or_null(report.final_test_accuracy)},
               {"confusion_matrix", report.confusion_matrix.empty() ? Json(nullptr) : Json(report.confusion_matrix)},
               {"parameter_sha256", report.parameter_sha256}};
  if (!report.has_classes) {
    json["test_loss"] = report.epochs.empty() ? Json(nullptr) : or_null(report.epochs.back().test_loss);
  }
  if (!report.class_names.empty()) json["class_names"] = report.class_names;
  return json.dump(2) + "\n";
}

std::string epochs_to_json(const std::vector<EpochReport>& epochs) { return epochs_json(epochs).dump(); }

std::vector<EpochReport> epochs_from_json(const std::string& text) {
  try {
    std::vector<EpochReport> epochs;
    for (const Json& json : Json::parse(text)) {
      // JSON knows no NaN: a loss that was none comes back as it was.
      const double not_a_number = std::numeric_limits<double>::quiet_NaN();
      epochs.push_back({.epoch = json.at("epoch").get<int>(),
                        .train_loss = optional_number(json, "train_loss").value_or(not_a_number),
                        .test_loss = optional_number(json, "test_loss"),
                        .test_accuracy = optional_number(json, "test_accuracy"),
                        .seconds = json.at("seconds").get<double>()});
      if (json.contains("train_accuracy")) epochs.back().train_accuracy = optional_number(json, "train_accuracy");
    }
    return epochs;
  } catch (const Json::exception& error) {
    throw std::runtime_error(std::string("the history of epochs cannot be read: ") + error.what());
  }
}

}  // namespace tutti::trainer
