#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/sha256.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kStateFile[] = "state.json";

std::string sha256_of(const std::string& bytes) { return hex(Sha256().add(bytes).digest()); }

/// The epoch in "epoch-0002"; nothing for every other name.
std::optional<int> epoch_of(const std::string& folder_name) {
  constexpr std::string_view kPrefix = "epoch-";
  if (!folder_name.starts_with(kPrefix)) return std::nullopt;
  int epoch = 0;
  const char* end = folder_name.data() + folder_name.size();
  const auto [stopped, error] = std::from_chars(folder_name.data() + kPrefix.size(), end, epoch);
  if (error != std::errc() || stopped != end || epoch < 0) return std::nullopt;
  return epoch;
}

Json state_to_json(const CheckpointState& state, const std::string& model_sum, const std::string& optimizer_sum) {
  return {{"format", kFormat},
          {"epoch", state.epoch},
          {"world_size", state.world_size},
          {"options", state.options},
          {"history", state.history},
          {"sha256", {{kModelFile, model_sum}, {kOptimizerFile, optimizer_sum}}}};
}

std::string read_checked(const fs::path& file, const Json& sums) {
  std::string bytes = read_whole_file(file);
  const std::string expected = sums.at(file.filename().string()).get<std::string>();
  const std::string found = sha256_of(bytes);
  if (found != expected) {
    throw std::runtime_error("the checkpoint file " + file.string() + " is damaged: its sha256 is " + found +
                             ", state.json says " + expected + "; remove the folder " + file.parent_path().string() +
                             " to go on from an earlier checkpoint");
  }
  return bytes;
}

Json read_state(const fs::path& file) {
  const std::string text = read_whole_file(file);
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) {
    throw std::runtime_error("the checkpoint file " + file.string() + " is damaged: it is not a JSON object");
  }
  return json;
}

}  // namespace

std::string checkpoint_folder_name(int epoch) {
  char text[32];
  std::snprintf(text, sizeof text, "epoch-%04d", epoch);
  return text;
}

fs::path write_checkpoint(const fs::path& dir, const Checkpoint& checkpoint) {
  const std::string name = checkpoint_folder_name(checkpoint.state.epoch);
  const fs::path folder = dir / name;
  const fs::path incomplete = dir / ("." + name + ".incomplete");
  try {
    fs::create_directories(dir);
    fs::remove_all(incomplete);  // of a run that was killed here
    fs::create_directory(incomplete);
  } catch (const fs::filesystem_error& error) {
    throw std::runtime_error("cannot write the checkpoint " + folder.string() + ": " + error.code().message());
  }
  const std::string model = encode_safetensors(checkpoint.model, {{"format", "pt"}});
  const std::string optimizer = encode_safetensors(checkpoint.optimizer, {{"format", "pt"}});
  const Json state = state_to_json(checkpoint.state, sha256_of(model), sha256_of(optimizer));
  write_durably(incomplete / kModelFile, model);
  write_durably(incomplete / kOptimizerFile, optimizer);
  write_durably(incomplete / kStateFile, state.dump(2) + "\n");
  sync_folder(incomplete);
  if (std::rename(incomplete.c_str(), folder.c_str()) != 0) {
    const int error_number = errno;
    const bool exists = error_number == EEXIST || error_number == ENOTEMPTY;
    throw std::runtime_error("cannot write the checkpoint " + folder.string() + ": " +
                             (exists ? "that epoch is there already" : std::strerror(error_number)));
  }
  sync_folder(dir);
  return folder;
}

std::optional<fs::path> newest_checkpoint(const fs::path& dir) {
  std::error_code error;
  fs::directory_iterator entries(dir, error);
  if (error == std::errc::no_such_file_or_directory) return std::nullopt;
  if (error) throw std::runtime_error("cannot read the checkpoint folder " + dir.string() + ": " + error.message());
  std::optional<int> newest;
  for (const fs::directory_entry& entry : entries) {
    const auto epoch = epoch_of(entry.path().filename().string());
    if (epoch && entry.is_directory(error) && (!newest || *epoch > *newest)) newest = epoch;
  }
  if (!newest) return std::nullopt;
  return dir / checkpoint_folder_name(*newest);
}

Checkpoint read_checkpoint(const fs::path& folder) {
  const fs::path state_file = folder / kStateFile;
  const Json json = read_state(state_file);
  Checkpoint checkpoint;
  try {
    if (json.at("format").get<int>() != kFormat) {
      throw std::runtime_error("the checkpoint " + folder.string() + " has format " + json.at("format").dump() +
                               "; this version of tutti reads format " + std::to_string(kFormat));
    }
    checkpoint.state.epoch = json.at("epoch").get<int>();
    checkpoint.state.world_size = json.at("world_size").get<int>();
    checkpoint.state.options = json.at("options").get<std::map<std::string, std::string>>();
    checkpoint.state.history = json.at("history").get<std::string>();
    const fs::path model = folder / kModelFile;
    const fs::path optimizer = folder / kOptimizerFile;
    checkpoint.model = decode_safetensors(read_checked(model, json.at("sha256")), model.string()).tensors;
    checkpoint.optimizer = decode_safetensors(read_checked(optimizer, json.at("sha256")), optimizer.string()).tensors;
  } catch (const Json::exception& error) {
    throw std::runtime_error("the checkpoint file " + state_file.string() + " is damaged: " + error.what());
  }
  if (checkpoint.state.epoch != epoch_of(folder.filename().string())) {
    throw std::runtime_error("the checkpoint file " + state_file.string() + " is damaged: it says epoch " +
                             std::to_string(checkpoint.state.epoch) + " in a folder named " +
                             folder.filename().string());
  }
  return checkpoint;
}

std::string option_differences(const CheckpointState& saved, const std::map<std::string, std::string>& wanted) {
  std::string list;
  const auto value_in = [](const std::map<std::string, std::string>& options, const std::string& key) {
    const auto found = options.find(key);
    return found == options.end() ? std::string("(not set)") : found->second;
  };
  std::map<std::string, std::string> all = wanted;
  all.insert(saved.options.begin(), saved.options.end());
  for (const auto& [key, unused] : all) {
    const std::string before = value_in(saved.options, key);
    const std::string now = value_in(wanted, key);
    if (before != now) list += (list.empty() ? "" : "; ") + key + " was " + before + ", now " + now;
  }
  if (list.empty()) return "";
  return "this run differs from the one that wrote the checkpoint: " + list +
         " (another number of ranks is fine as long as the global batch stays the same)";
}

void assign_tensors(const NamedTensors& target, const NamedTensors& source, const std::string& origin) {
  std::map<std::string, tensor::Tensor> given(source.begin(), source.end());
  for (const auto& [name, tensor] : target) {
    const auto found = given.find(name);
    if (found == given.end()) throw std::runtime_error(origin + ": the tensor \"" + name + "\" is missing");
    if (found->second.shape() != tensor.shape() || found->second.dtype() != tensor.dtype()) {
      throw std::runtime_error(origin + ": the tensor \"" + name + "\" is " +
                               std::string(tensor::name(found->second.dtype())) + " " +
                               found->second.shape().to_string() + ", expected " +
                               std::string(tensor::name(tensor.dtype())) + " " + tensor.shape().to_string());
    }
  }
  if (given.size() != target.size()) {
    for (const auto& [name, tensor] : target) given.erase(name);
    throw std::runtime_error(origin + ": the tensor \"" + given.begin()->first + "\" has no counterpart here");
  }
  for (const auto& [name, tensor] : target) {
    tensor::Tensor destination = tensor;  // same memory
    destination.copy_from(given.at(name));
  }
}

}  // namespace tutti::trainer
