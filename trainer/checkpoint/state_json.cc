#include <tutti/comm/base/format.h>
#include <tutti/trainer/checkpoint/sha256.h>
#include <tutti/trainer/checkpoint/state_json.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace tutti::trainer {
namespace {

using StateJson = nlohmann::ordered_json;

constexpr int kFormat = 2;

std::string exact_text(double value) { return comm::format("%a", value); }

double exact_value(const StateJson& json) {
  const std::string text = json.get<std::string>();
  const auto value = comm::parse_number(text);
  if (!value) throw std::runtime_error("\"" + text + "\" is no number");
  return *value;
}

StateJson sums_to_json(const std::vector<LossSum>& sums) {
  StateJson list = StateJson::array();
  for (const LossSum& sum : sums) list.push_back({exact_text(sum.loss), sum.samples});
  return list;
}

std::vector<LossSum> sums_from_json(const StateJson& json) {
  std::vector<LossSum> sums;
  for (const StateJson& pair : json) {
    sums.push_back({.loss = exact_value(pair.at(0)), .samples = pair.at(1).get<std::int64_t>()});
  }
  return sums;
}

StateJson files_to_json(const std::map<std::string, FileRecord>& files) {
  StateJson json = StateJson::object();
  for (const auto& [name, record] : files) {
    json[name] = {{"bytes", record.nbytes}, {"sha256", record.sha256}, {"crc32", record.crc32}};
  }
  return json;
}

std::string sum_of(const StateJson& state) { return hex(Sha256().add(state.dump()).digest()); }

SavedState parse_format1(const StateJson& json) {
  SavedState saved;
  saved.state.epoch = json.at("epoch").get<int>();
  saved.state.world_size = json.at("world_size").get<int>();
  saved.state.options = json.at("options").get<std::map<std::string, std::string>>();
  saved.state.history = json.at("history").get<std::string>();
  for (const auto& [name, sum] : json.at("sha256").items()) saved.files[name].sha256 = sum.get<std::string>();
  return saved;
}

SavedState parse_format2(const StateJson& json) {
  SavedState saved;
  saved.state.epoch = json.at("epoch").get<int>();
  saved.state.step = json.at("step").get<std::int64_t>();
  saved.state.steps_per_epoch = json.at("steps_per_epoch").get<std::int64_t>();
  saved.state.world_size = json.at("world_size").get<int>();
  saved.state.options = json.at("options").get<std::map<std::string, std::string>>();
  saved.state.history = json.at("history").get<std::string>();
  saved.state.sums = sums_from_json(json.at("loss_sums"));
  saved.state.seconds = exact_value(json.at("seconds"));
  for (const auto& [name, record] : json.at("files").items()) {
    saved.files[name] = {.nbytes = record.at("bytes").get<std::uint64_t>(),
                         .sha256 = record.at("sha256").get<std::string>(),
                         .crc32 = record.at("crc32").get<std::map<std::string, std::string>>()};
  }
  return saved;
}

}  // namespace

std::string state_to_json(const SavedState& saved) {
  const CheckpointState& state = saved.state;
  const StateJson json = {{"epoch", state.epoch},
                          {"step", state.step},
                          {"steps_per_epoch", state.steps_per_epoch},
                          {"world_size", state.world_size},
                          {"options", state.options},
                          {"history", state.history},
                          {"loss_sums", sums_to_json(state.sums)},
                          {"seconds", exact_text(state.seconds)},
                          {"files", files_to_json(saved.files)}};
  return StateJson{{"format", kFormat}, {"sha256", sum_of(json)}, {"state", json}}.dump(2) + "\n";
}

SavedState state_from_json(const std::string& text, const std::filesystem::path& file) {
  const std::string damaged = "the checkpoint file " + file.string() + " is damaged: ";
  const StateJson json = StateJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) throw DamagedCheckpoint(damaged + "it is not a JSON object");
  try {
    const int format = json.at("format").get<int>();
    if (format == 1) return parse_format1(json);
    if (format != kFormat) {
      throw std::runtime_error("the checkpoint file " + file.string() + " has format " + std::to_string(format) +
                               "; this version of tutti reads formats 1 and " + std::to_string(kFormat));
    }
    const StateJson& state = json.at("state");
    if (json.at("sha256").get<std::string>() != sum_of(state)) {
      throw DamagedCheckpoint(damaged + "its contents do not have the sha256 that stands in it");
    }
    return parse_format2(state);
  } catch (const StateJson::exception& error) {
    throw DamagedCheckpoint(damaged + error.what());
  }
}

}  // namespace tutti::trainer
