// Checkpoints of a group: rank 0 alone touches the folder, and every rank learns how it went.
//
// All functions with a group are collective. A failure on rank 0 (disk full, damaged file, other options) is thrown on
// every rank as std::runtime_error with rank 0's text; nobody is left waiting. Only rank 0 needs to see the folder.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>
#include <tutti/nn/optim/optimizer.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/data_parallel/gradient_exchange.h>

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

// What gradient exchanges remember (error feedback), of all ranks, for a checkpoint.
//
// Every rank's exchange remembers tensors of the same names and shapes and with values of its own. In a checkpoint each
// name has one tensor (world size, elements), whose row r is rank r's. Both functions are collective.

/// On rank 0 copies of all ranks' memories; elsewhere nothing. `exchange` may be null, and nothing is sent when it has
/// no memory.
NamedTensors gather_exchange_state(comm::ProcessGroup& group, GradientExchange* exchange);

/// The inverse: rank 0's `state` into everybody's exchange. Of as many ranks as this group has, each gets its own back;
/// of another number, each gets an equal part of the sum of what is called "<...>.error", so that nothing that was left
/// out is lost, and the first rank's values of anything else. Throws std::runtime_error on every rank when names or
/// shapes differ.
void scatter_exchange_state(comm::ProcessGroup& group, const NamedTensors& state, GradientExchange& exchange);

// Weights from a safetensors file that somebody else wrote, torchvision's for example.

/// Copies the file's tensors into the parameters and buffers of the same names. Shapes and types must be equal, and
/// every name must be on both sides, except for "num_batches_tracked", which older files do not have and which stays
/// as it is then. With `other_classes` the module's last two parameters, a layer's weight and bias, stay as they are if
/// the file's differ in nothing but their first dimension; their names are returned. Throws std::runtime_error naming
/// the file and the names that are missing, left over or of another shape; the module is unchanged then.
std::vector<std::string> load_parameters(nn::Module& module, const std::filesystem::path& file,
                                         bool other_classes = false);

}  // namespace tutti::trainer
