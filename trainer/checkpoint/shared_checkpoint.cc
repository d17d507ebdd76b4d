#include <tutti/trainer/checkpoint/file_record.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data_parallel/sharding/sharded_optimizer.h>
#include <tutti/trainer/tensor_comm.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

void broadcast_tensors(comm::ProcessGroup& group, NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) broadcast(group, tensor, 0);
}

struct WholeCheckpoint {
  fs::path folder;
  Checkpoint contents;
  std::vector<std::pair<fs::path, std::string>> damaged;  // newer ones, and what is wrong with them
};

/// The newest that is whole; nothing if there is no checkpoint at all.
std::optional<WholeCheckpoint> newest_whole_checkpoint(const fs::path& dir) {
  WholeCheckpoint found;
  for (const fs::path& folder : checkpoints_in(dir)) {
    try {
      found.contents = read_checkpoint(folder);
      found.folder = folder;
      return found;
    } catch (const DamagedCheckpoint& error) {
      found.damaged.emplace_back(folder, error.what());
    }
  }
  if (found.damaged.empty()) return std::nullopt;
  throw std::runtime_error(
      "cannot resume: no checkpoint in " + dir.string() + " is whole. " + found.damaged.front().second +
      ". To begin anew, name another folder or leave out --resume " + "after moving this one away");
}

/// Loads, and gives everything about it that the other ranks need.
Json resume_here(const fs::path& dir, const std::map<std::string, std::string>& wanted, const NamedTensors& model,
                 const NamedTensors& optimizer, NamedTensors& exchange) {
  const auto found = newest_whole_checkpoint(dir);
  if (!found) return {};
  const CheckpointState& state = found->contents.state;
  const std::string differences = option_differences(state, wanted);
  if (!differences.empty()) {
    throw std::runtime_error("cannot resume from " + found->folder.string() + ": " + differences);
  }
  assign_tensors(model, found->contents.model, (found->folder / "model.safetensors").string());
  assign_tensors(optimizer, found->contents.optimizer, (found->folder / "optimizer.safetensors").string());
  exchange = found->contents.exchange;
  Json warnings = Json::array();
  for (const auto& [folder, damage] : found->damaged) {
    warnings.push_back(damage + "; set aside as " + set_aside(folder).filename().string() +
                       ", going on from the one before");
  }
  // Sums travel as bits: JSON knows neither NaN nor infinity.
  Json sums = Json::array();
  for (const LossSum& sum : state.sums) sums.push_back({std::bit_cast<std::uint64_t>(sum.loss), sum.samples});
  return {{"epoch", state.epoch},
          {"step", state.step},
          {"steps", state.steps_per_epoch},
          {"world_size", state.world_size},
          {"history", state.history},
          {"seconds", state.seconds},
          {"sums", sums},
          {"folder", found->folder.string()},
          {"warnings", warnings},
          {"exchange", !exchange.empty()}};
}

}  // namespace

std::string on_rank0(comm::ProcessGroup& group, const std::function<std::string()>& action) {
  Json outcome;
  if (group.rank() == 0) {
    try {
      outcome["result"] = action();
    } catch (const std::exception& error) {
      outcome["error"] = error.what();
    }
  }
  // A file name need not be UTF-8; a text with a replaced letter is better than none.
  const auto text = outcome.dump(-1, ' ', false, Json::error_handler_t::replace);
  const Json shared = Json::parse(broadcast_text(group, text, 0));
  if (shared.contains("error")) throw std::runtime_error(shared["error"].get<std::string>());
  return shared["result"].get<std::string>();
}

NamedTensors model_tensors(const nn::Module& model) {
  NamedTensors tensors;
  for (const auto& [name, parameter] : model.named_parameters()) tensors.emplace_back(name, parameter.data());
  for (const auto& [name, buffer] : model.named_buffers()) tensors.emplace_back(name, buffer);
  return tensors;
}

void save_checkpoint(comm::ProcessGroup& group, const std::filesystem::path& dir, const CheckpointState& state,
                     const nn::Module& model, nn::Optimizer& optimizer) {
  const NamedTensors of_optimizer = full_optimizer_state(optimizer);
  on_rank0(group, [&] {
    return write_checkpoint(dir, {.state = state, .model = model_tensors(model), .optimizer = of_optimizer}).string();
  });
}

std::optional<ResumedCheckpoint> resume_checkpoint(comm::ProcessGroup& group, const std::filesystem::path& dir,
                                                   const std::map<std::string, std::string>& wanted,
                                                   const nn::Module& model, nn::Optimizer& optimizer) {
  const NamedTensors of_model = model_tensors(model);
  const NamedTensors of_optimizer = full_optimizer_state(optimizer);
  ResumedCheckpoint resumed;
  const Json json = Json::parse(on_rank0(group, [&] {
    return resume_here(dir, wanted, of_model, of_optimizer, resumed.exchange)
        .dump(-1, ' ', false, Json::error_handler_t::replace);
  }));
  if (json.is_null()) return std::nullopt;
  broadcast_tensors(group, of_model);
  share_optimizer_state(group, optimizer, of_optimizer);
  resumed.epoch = json["epoch"].get<int>();
  resumed.step = json["step"].get<std::int64_t>();
  resumed.steps_per_epoch = json["steps"].get<std::int64_t>();
  resumed.world_size = json["world_size"].get<int>();
  resumed.options = wanted;
  resumed.history = json["history"].get<std::string>();
  resumed.seconds = json["seconds"].get<double>();
  for (const Json& sum : json["sums"]) {
    resumed.sums.push_back(
        {.loss = std::bit_cast<double>(sum[0].get<std::uint64_t>()), .samples = sum[1].get<std::int64_t>()});
  }
  resumed.has_exchange = json["exchange"].get<bool>();
  resumed.folder = json["folder"].get<std::string>();
  resumed.warnings = json["warnings"].get<std::vector<std::string>>();
  return resumed;
}

}  // namespace tutti::trainer
