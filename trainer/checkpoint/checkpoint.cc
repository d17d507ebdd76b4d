#include <tutti/comm/base/format.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/json_fields.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace tutti::trainer {

/// What state.json knows of another file of its checkpoint: enough to prove it whole. sha256 covers every byte of it
/// (`sha256sum` gives the same).
struct FileRecord {
  std::uint64_t nbytes = 0;
  std::string sha256;  // lower-case hex

  static void fields(auto& self, const auto& use) {
    use("bytes", self.nbytes);
    use("sha256", self.sha256);
  }
};

struct SavedState {
  CheckpointState state;
  std::map<std::string, FileRecord> files;  // by name

  /// All but the state's seconds.
  static void fields(auto& self, const auto& use) {
    use("epoch", self.state.epoch);
    use("step", self.state.step);
    use("steps_per_epoch", self.state.steps_per_epoch);
    use("world_size", self.state.world_size);
    use("options", self.state.options);
    use("history", self.state.history);
    use("loss_sums", self.state.sums);
    use("files", self.files);
  }
};

namespace {

namespace fs = std::filesystem;
using StateJson = nlohmann::ordered_json;

constexpr int kFormat = 2;
constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kExchangeFile[] = "exchange.safetensors";
constexpr char kStateFile[] = "state.json";

std::string exact_text(double value) { return comm::format("%a", value); }

double exact_value(const StateJson& json) {
  const std::string text = json.get<std::string>();
  const auto value = comm::parse_number(text);
  if (!value) throw std::runtime_error("\"" + text + "\" is no number");
  return *value;
}

std::string sum_of(const StateJson& state) { return Digest().add(state.dump()).hex(); }

}  // namespace

static void to_json(StateJson& json, const LossSum& sum) { json = {exact_text(sum.loss), sum.samples}; }
static void from_json(const StateJson& json, LossSum& sum) {
  sum = {.loss = exact_value(json.at(0)), .samples = json.at(1).get<std::int64_t>()};
}

namespace {

std::string text_of(const SavedState& saved) {
  StateJson json = saved;
  json["seconds"] = exact_text(saved.state.seconds);
  return StateJson{{"format", kFormat}, {"sha256", sum_of(json)}, {"state", json}}.dump(2) + "\n";
}

SavedState saved_state_from(const std::string& text, const fs::path& file) {
  const std::string damaged = "the checkpoint file " + file.string() + " is damaged: ";
  const StateJson json = StateJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) throw DamagedCheckpoint(damaged + "it is not a JSON object");
  try {
    const int format = json.at("format").get<int>();
    if (format != kFormat) {
      throw std::runtime_error("the checkpoint file " + file.string() + " has format " + std::to_string(format) +
                               "; this version of tutti reads format " + std::to_string(kFormat));
    }
    const StateJson& state = json.at("state");
    if (json.at("sha256").get<std::string>() != sum_of(state)) {
      throw DamagedCheckpoint(damaged + "its contents do not have the sha256 that stands in it");
    }
    auto saved = state.get<SavedState>();
    saved.state.seconds = exact_value(state.at("seconds"));
    return saved;
  } catch (const StateJson::exception& error) {
    throw DamagedCheckpoint(damaged + error.what());
  }
}

/// A file of a complete checkpoint. That it is missing or cannot be read is damage; that we may not read it, or have no
/// memory or descriptors to do so, is not.
std::string read_part(const fs::path& file) {
  try {
    return read_whole_file(file);
  } catch (const std::system_error& error) {
    const std::error_code code = error.code();
    if (code == std::errc::no_such_file_or_directory) {
      throw DamagedCheckpoint("the checkpoint " + file.parent_path().string() + " is damaged: its file " +
                              file.filename().string() + " is missing");
    }
    if (code != std::errc::io_error && code != std::errc::is_a_directory) throw;
    throw DamagedCheckpoint("the checkpoint file " + file.string() +
                            " is damaged: it cannot be read: " + code.message());
  }
}

NamedTensors read_tensors(const fs::path& file, const std::map<std::string, FileRecord>& records) {
  const auto record = records.find(file.filename().string());
  if (record == records.end()) {
    throw DamagedCheckpoint("the checkpoint " + file.parent_path().string() + " is damaged: its state.json does not " +
                            "know the file " + file.filename().string());
  }
  const std::string bytes = read_part(file);
  const std::string damaged = "the checkpoint file " + file.string() + " is damaged: ";
  const auto& [nbytes, sha256] = record->second;
  if (bytes.size() != nbytes) {
    throw DamagedCheckpoint(damaged + "it is " + std::to_string(bytes.size()) + " bytes long, state.json says " +
                            std::to_string(nbytes));
  }
  const std::string found = Digest().add(bytes).hex();
  if (found != sha256) throw DamagedCheckpoint(damaged + "its sha256 is " + found + ", state.json says " + sha256);
  return decode_safetensors(bytes, file.string()).tensors;
}

void write_parts(const fs::path& incomplete, const EncodedCheckpoint& encoded) {
  fs::create_directory(incomplete);
  SavedState saved{.state = encoded.state, .files = {}};
  const auto write_part = [&](const char* name, const std::string& bytes) {
    saved.files[name] = {.nbytes = bytes.size(), .sha256 = Digest().add(bytes).hex()};
    replace_file(incomplete / name, bytes);
  };
  write_part(kModelFile, encoded.model);
  write_part(kOptimizerFile, encoded.optimizer);
  if (!encoded.exchange.empty()) write_part(kExchangeFile, encoded.exchange);
  replace_file(incomplete / kStateFile, text_of(saved));
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
  encoded.model = encode_safetensors(model, metadata, std::move(encoded.model));
  encoded.optimizer = encode_safetensors(optimizer, metadata, std::move(encoded.optimizer));
  if (exchange.empty()) return encoded.exchange.clear();
  encoded.exchange = encode_safetensors(exchange, metadata, std::move(encoded.exchange));
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
  SavedState saved = saved_state_from(read_part(state_file), state_file);
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

CheckpointState state_from_json(const std::string& text, const fs::path& file) {
  return saved_state_from(text, file).state;
}

std::string text_in(const std::map<std::string, std::string>& options, const std::string& name,
                    const std::string& otherwise) {
  const auto found = options.find(name);
  return found == options.end() ? otherwise : found->second;
}

std::map<std::string, std::pair<std::string, std::string>> differences(const std::map<std::string, std::string>& a,
                                                                       const std::map<std::string, std::string>& b) {
  std::map<std::string, std::pair<std::string, std::string>> found;
  for (const auto* const options : {&a, &b}) {
    for (const auto& [name, unused] : *options) {
      const std::pair texts(text_in(a, name, "(not set)"), text_in(b, name, "(not set)"));
      if (texts.first != texts.second) found.emplace(name, texts);
    }
  }
  return found;
}

std::string option_differences(const CheckpointState& saved, const std::map<std::string, std::string>& wanted) {
  std::string list;
  for (const auto& [name, texts] : differences(saved.options, wanted)) {
    list += (list.empty() ? "" : "; ") + name + " was " + texts.first + ", now " + texts.second;
  }
  if (list.empty()) return "";
  return "this run differs from the one that wrote the checkpoint: " + list +
         " (another number of ranks is fine as long as the global batch stays the same)";
}

namespace {

/// How many names an error tells.
constexpr std::size_t kMostNamed = 5;

/// `"a", "b" and 3 more`: the names in `all` that are not in `others`; "" if there are none.
std::string without(const NamedTensors& all, const NamedTensors& others) {
  std::set<std::string> known;
  for (const auto& [name, tensor] : others) known.insert(name);
  std::size_t count = 0;
  std::string text;
  for (const auto& [name, tensor] : all) {
    if (known.contains(name) || ++count > kMostNamed) continue;
    text += (text.empty() ? "\"" : ", \"") + name + "\"";
  }
  return text + (count > kMostNamed ? " and " + std::to_string(count - kMostNamed) + " more" : "");
}

}  // namespace

void assign_tensors(const NamedTensors& target, const NamedTensors& source, const std::string& origin) {
  const std::string missing = without(target, source), extra = without(source, target);
  if (!missing.empty() || !extra.empty()) {
    throw std::runtime_error(origin + ":" + (missing.empty() ? "" : " it lacks " + missing) +
                             (missing.empty() || extra.empty() ? "" : ";") +
                             (extra.empty() ? "" : " there is no tensor here for its " + extra));
  }
  const std::map<std::string, tensor::Tensor> given(source.begin(), source.end());
  for (const auto& [name, tensor] : target) {
    const tensor::Tensor& found = given.at(name);
    if (found.shape() == tensor.shape() && found.dtype() == tensor.dtype()) continue;
    throw std::runtime_error(origin + ": the tensor \"" + name + "\" is " + std::string(tensor::name(found.dtype())) +
                             " " + found.shape().to_string() + ", expected " +
                             std::string(tensor::name(tensor.dtype())) + " " + tensor.shape().to_string());
  }
  for (const auto& [name, tensor] : target) {
    tensor::Tensor destination = tensor;  // same memory
    destination.copy_from(given.at(name));
  }
}

}  // namespace tutti::trainer
