#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/tensor_comm.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tutti::trainer {
namespace {

using Json = nlohmann::json;

/// Runs `action` on rank 0 and hands its text to every rank; its error, too.
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

void broadcast_tensors(comm::ProcessGroup& group, NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) broadcast(group, tensor, 0);
}

Checkpoint read_matching(const std::filesystem::path& folder, const std::map<std::string, std::string>& wanted) {
  Checkpoint checkpoint = read_checkpoint(folder);
  const std::string differences = option_differences(checkpoint.state, wanted);
  if (!differences.empty()) throw std::runtime_error("cannot resume from " + folder.string() + ": " + differences);
  return checkpoint;
}

}  // namespace

NamedTensors model_tensors(const nn::Module& model) {
  NamedTensors tensors;
  for (const auto& [name, parameter] : model.named_parameters()) tensors.emplace_back(name, parameter.data());
  for (const auto& [name, buffer] : model.named_buffers()) tensors.emplace_back(name, buffer);
  return tensors;
}

void save_checkpoint(comm::ProcessGroup& group, const std::filesystem::path& dir, const CheckpointState& state,
                     const nn::Module& model, nn::Optimizer& optimizer) {
  on_rank0(group, [&] {
    return write_checkpoint(dir, {.state = state, .model = model_tensors(model), .optimizer = optimizer.state()})
        .string();
  });
}

std::optional<CheckpointState> resume_checkpoint(comm::ProcessGroup& group, const std::filesystem::path& dir,
                                                 const std::map<std::string, std::string>& wanted,
                                                 const nn::Module& model, nn::Optimizer& optimizer) {
  const std::string text = on_rank0(group, [&]() -> std::string {
    const auto folder = newest_checkpoint(dir);
    if (!folder) return "";
    const Checkpoint found = read_matching(*folder, wanted);
    assign_tensors(model_tensors(model), found.model, (*folder / "model.safetensors").string());
    assign_tensors(optimizer.state(), found.optimizer, (*folder / "optimizer.safetensors").string());
    const CheckpointState& state = found.state;
    return Json{{"epoch", state.epoch}, {"world_size", state.world_size}, {"history", state.history}}.dump();
  });
  if (text.empty()) return std::nullopt;
  broadcast_tensors(group, model_tensors(model));
  broadcast_tensors(group, optimizer.state());
  const Json json = Json::parse(text);
  return CheckpointState{.epoch = json["epoch"].get<int>(),
                         .world_size = json["world_size"].get<int>(),
                         .options = wanted,
                         .history = json["history"].get<std::string>()};
}

}  // namespace tutti::trainer
