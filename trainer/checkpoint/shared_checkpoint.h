// Checkpoints of a group: rank 0 alone touches the folder, and every rank learns how it went.
//
// Both functions are collective. A failure on rank 0 (disk full, damaged file, other options) is thrown on every rank
// as std::runtime_error with rank 0's text; nobody is left waiting. Only rank 0 needs to see the folder.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/trainer/checkpoint/checkpoint.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace tutti::trainer {

/// Parameters, then buffers, under the model's names; the tensors share the model's memory.
NamedTensors model_tensors(const nn::Module& model);

/// `state` needs to be filled on rank 0 only.
void save_checkpoint(comm::ProcessGroup& group, const std::filesystem::path& dir, const CheckpointState& state,
                     const nn::Module& model, nn::Optimizer& optimizer);

/// Loads the newest complete checkpoint into model and optimizer on every rank and returns its state; nothing, and
/// nothing changed, when there is none. Throws when its options differ from `wanted`, saying which.
std::optional<CheckpointState> resume_checkpoint(comm::ProcessGroup& group, const std::filesystem::path& dir,
                                                 const std::map<std::string, std::string>& wanted,
                                                 const nn::Module& model, nn::Optimizer& optimizer);

}  // namespace tutti::trainer
