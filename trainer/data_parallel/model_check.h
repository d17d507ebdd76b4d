// Do all ranks hold the same model? Before training its description, after training its bits.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>

#include <string>

namespace tutti::trainer {

/// Collective. Compares names, shapes and types of parameters and buffers over all ranks. On a difference every rank
/// throws the same std::runtime_error, naming the first entry that differs with both ranks' values.
void check_same_model(comm::ProcessGroup& group, const nn::Module& model);

/// SHA-256 over names, types, shapes and bytes of all parameters in registration order, as hex.
std::string parameter_sha256(const nn::Module& model);

/// Collective. parameter_sha256 of every rank, compared: returns it, or every rank throws std::runtime_error naming the
/// ranks that differ from rank 0.
std::string agreed_parameter_sha256(comm::ProcessGroup& group, const nn::Module& model);

}  // namespace tutti::trainer
