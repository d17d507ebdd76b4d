// Weights from a safetensors file that somebody else wrote, torchvision's for example.
#pragma once

#include <tutti/nn/module.h>

#include <filesystem>

namespace tutti::trainer {

/// Copies the file's tensors into the parameters and buffers of the same names. Shapes and types must be equal, and
/// every name must be on both sides, except for "num_batches_tracked", which older files do not have and which stays
/// as it is then. Throws std::runtime_error naming the file and the names that are missing, left over or of another
/// shape; the module is unchanged then.
void load_parameters(nn::Module& module, const std::filesystem::path& file);

}  // namespace tutti::trainer
