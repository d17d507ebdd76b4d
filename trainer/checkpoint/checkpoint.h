// A checkpoint: one folder per finished epoch, complete or absent.
//
//   DIR/epoch-0002/model.safetensors      parameters and buffers, with PyTorch's names
//   DIR/epoch-0002/optimizer.safetensors  the optimizer's named state
//   DIR/epoch-0002/state.json             epoch, the options a continuation must share, history, sha256 of the two
//   files
//
// Written to DIR/.epoch-0002.incomplete, each file synced, then the folder renamed and DIR synced: whoever kills the
// process leaves either the whole folder or one that nobody reads (and the next save of that epoch clears away).
//
// The functions here are local: one process, one folder. shared_checkpoint.h is what a group of ranks calls.
// Errors: std::runtime_error naming the file. Thread-safety: pure functions over files.
#pragma once

#include <tutti/trainer/checkpoint/safetensors.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tutti::trainer {

struct CheckpointState {
  int epoch = 0;       // finished epochs
  int world_size = 1;  // of the run that wrote it; a continuation may have another one
  /// What must be equal when training goes on: option name without dashes -> value.
  std::map<std::string, std::string> options;
  std::string history;  // the writer's own JSON text; kept as it is
};

struct Checkpoint {
  CheckpointState state;
  NamedTensors model;
  NamedTensors optimizer;
};

/// "epoch-0002".
std::string checkpoint_folder_name(int epoch);

/// Returns the new folder. Creates `dir` when it is missing. Throws when that epoch is there already.
std::filesystem::path write_checkpoint(const std::filesystem::path& dir, const Checkpoint& checkpoint);

/// The complete checkpoint of the highest epoch; nothing when there is none or `dir` does not exist.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& dir);

/// Checks every checksum before anything is used.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

/// One sentence that lists each option that differs with both values, or an empty text.
std::string option_differences(const CheckpointState& saved, const std::map<std::string, std::string>& wanted);

/// Copies `source` into `target`, matched by name. Throws std::runtime_error starting with `origin` for a tensor that
/// is missing, left over, or of another shape or type; `target` is unchanged then.
void assign_tensors(const NamedTensors& target, const NamedTensors& source, const std::string& origin);

}  // namespace tutti::trainer
