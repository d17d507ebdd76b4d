// Checkpoints of a group: rank 0 alone touches the folder, and every rank learns how it went.
//
// All functions with a group are collective. A failure on rank 0 (disk full, damaged file, other options) is thrown on
// every rank as std::runtime_error with rank 0's text; nobody is left waiting. Only rank 0 needs to see the folder.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/trainer/checkpoint/checkpoint.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tutti::trainer {

/// Parameters, then buffers, under the model's names; the tensors share the model's memory.
NamedTensors model_tensors(const nn::Module& model);

/// Runs `action` on rank 0 and returns its text on every rank; what it throws, every rank throws.
std::string on_rank0(comm::ProcessGroup& group, const std::function<std::string()>& action);

/// Returns when the checkpoint is durable. Of a sharded optimizer the plain state is saved. `state` needs to be filled
/// on rank 0 only.
void save_checkpoint(comm::ProcessGroup& group, const std::filesystem::path& dir, const CheckpointState& state,
                     const nn::Module& model, nn::Optimizer& optimizer);

struct ResumedCheckpoint : CheckpointState {
  std::filesystem::path folder;
  bool has_exchange = false;          // the gradient exchange's memory is there, of world_size ranks
  NamedTensors exchange;              // on rank 0 only
  std::vector<std::string> warnings;  // newer checkpoints that were damaged and what became of them
};

/// Loads the newest checkpoint that is whole into model and optimizer on every rank; nothing, and nothing changed, when
/// there is none at all. Newer ones that are damaged are set aside (checkpoint_folder.h) and told of in `warnings`:
/// what they held is computed again, bit for bit. Throws when all are damaged (nothing is renamed then), and when the
/// options differ from `wanted`, saying which. For the run that writes to `dir`.
std::optional<ResumedCheckpoint> resume_checkpoint(comm::ProcessGroup& group, const std::filesystem::path& dir,
                                                   const std::map<std::string, std::string>& wanted,
                                                   const nn::Module& model, nn::Optimizer& optimizer);

}  // namespace tutti::trainer
