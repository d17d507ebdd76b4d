#include <tutti/trainer/report/run_report.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::trainer {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMaxClasses = 4096;

}  // namespace

std::string to_json(const RunReport& report) {
  OrderedJson json = report;
  if (report.confusion_matrix.empty()) json["confusion_matrix"] = nullptr;
  if (!report.has_classes)
    json["test_loss"] = report.epochs.empty() ? OrderedJson() : OrderedJson(report.epochs.back())["test_loss"];
  return json.dump(2) + "\n";
}

RunReport report_from_json(const std::string& text) {
  const auto report = OrderedJson::parse(text).get<RunReport>();
  const auto& counts = report.confusion_matrix;
  if (counts.size() > kMaxClasses) throw std::runtime_error("a confusion matrix of more than 4096 classes");
  for (const auto& row : counts) {
    if (row.size() != counts.size()) throw std::runtime_error("the confusion matrix is not square");
  }
  return report;
}

std::string epochs_to_json(const std::vector<EpochReport>& epochs) { return OrderedJson(epochs).dump(); }

std::vector<EpochReport> epochs_from_json(const std::string& text) {
  try {
    return OrderedJson::parse(text).get<std::vector<EpochReport>>();
  } catch (const OrderedJson::exception& error) {
    throw std::runtime_error(std::string("the history of epochs cannot be read: ") + error.what());
  }
}

}  // namespace tutti::trainer
