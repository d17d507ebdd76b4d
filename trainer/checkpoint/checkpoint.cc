#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/state_json.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kExchangeFile[] = "exchange.safetensors";
constexpr char kStateFile[] = "state.json";

/// A file of a complete checkpoint. That it is missing is damage; that we may not read it is not.
std::string read_part(const fs::path& file) {
  std::error_code error;
  if (fs::status(file, error).type() == fs::file_type::not_found) {
    throw DamagedCheckpoint("the checkpoint " + file.parent_path().string() + " is damaged: its file " +
                            file.filename().string() + " is missing");
  }
  return read_whole_file(file);
}

NamedTensors read_tensors(const fs::path& file, const std::map<std::string, FileRecord>& records) {
  const auto record = records.find(file.filename().string());
  if (record == records.end()) {
    throw DamagedCheckpoint("the checkpoint " + file.parent_path().string() + " is damaged: its state.json does not " +
                            "know the file " + file.filename().string());
  }
  const std::string bytes = read_part(file);
  const std::string damage = damage_in(bytes, record->second);
  if (!damage.empty()) throw DamagedCheckpoint("the checkpoint file " + file.string() + " is damaged: " + damage);
  return decode_safetensors(bytes, file.string()).tensors;
}

void write_parts(const fs::path& incomplete, const EncodedCheckpoint& encoded) {
  fs::create_directory(incomplete);
  SavedState saved{.state = encoded.state, .files = {}};
  const auto write_part = [&](const char* name, const std::string& bytes) {
    saved.files[name] = record_of(bytes);
    write_durably(incomplete / name, bytes);
  };
  write_part(kModelFile, encoded.model);
  write_part(kOptimizerFile, encoded.optimizer);
  if (!encoded.exchange.empty()) write_part(kExchangeFile, encoded.exchange);
  write_durably(incomplete / kStateFile, state_to_json(saved));
  sync_folder(incomplete);
}

void make_complete(const fs::path& incomplete, const fs::path& folder) {
  if (std::rename(incomplete.c_str(), folder.c_str()) != 0) {
    const int error_number = errno;
    const bool exists = error_number == EEXIST || error_number == ENOTEMPTY;
    throw std::runtime_error(exists ? "it is there already" : std::strerror(error_number));
  }
  sync_folder(folder.parent_path());
}

}  // namespace

void encode_checkpoint(const NamedTensors& model, const NamedTensors& optimizer, const NamedTensors& exchange,
                       EncodedCheckpoint& encoded) {
  const std::map<std::string, std::string> metadata{{"format", "pt"}};
  encode_safetensors(model, metadata, encoded.model);
  encode_safetensors(optimizer, metadata, encoded.optimizer);
  encoded.exchange.clear();
  if (!exchange.empty()) encode_safetensors(exchange, metadata, encoded.exchange);
}

fs::path write_checkpoint(const fs::path& dir, const EncodedCheckpoint& encoded) {
  const std::string name = checkpoint_folder_name(encoded.state.epoch, encoded.state.step);
  const fs::path folder = dir / name;
  const fs::path incomplete = dir / ("." + name + ".incomplete");
  const std::string cannot_write = "cannot write the checkpoint " + folder.string() + ": ";
  try {
    fs::create_directories(dir);
    fs::remove_all(incomplete);  // of a run that was killed here
    write_parts(incomplete, encoded);
    make_complete(incomplete, folder);
    return folder;
  } catch (const fs::filesystem_error& error) {
    throw std::runtime_error(cannot_write + error.code().message());
  } catch (const std::runtime_error& error) {
    std::error_code ignored;
    fs::remove_all(incomplete, ignored);  // a full disk is full of this, too
    throw std::runtime_error(cannot_write + error.what());
  }
}

fs::path write_checkpoint(const fs::path& dir, const Checkpoint& checkpoint) {
  EncodedCheckpoint encoded{.state = checkpoint.state, .model = {}, .optimizer = {}};
  encode_checkpoint(checkpoint.model, checkpoint.optimizer, checkpoint.exchange, encoded);
  return write_checkpoint(dir, encoded);
}

Checkpoint read_checkpoint(const fs::path& folder) {
  const fs::path state_file = folder / kStateFile;
  SavedState saved = state_from_json(read_part(state_file), state_file);
  if (saved.state.position() != checkpoint_position(folder.filename().string())) {
    throw DamagedCheckpoint("the checkpoint file " + state_file.string() + " is damaged: it says epoch " +
                            std::to_string(saved.state.epoch) +
                            (saved.state.step > 0 ? " and " + std::to_string(saved.state.step) + " steps" : "") +
                            " in a folder named " + folder.filename().string());
  }
  Checkpoint checkpoint;
  checkpoint.state = std::move(saved.state);
  checkpoint.model = read_tensors(folder / kModelFile, saved.files);
  checkpoint.optimizer = read_tensors(folder / kOptimizerFile, saved.files);
  if (saved.files.contains(kExchangeFile)) checkpoint.exchange = read_tensors(folder / kExchangeFile, saved.files);
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
