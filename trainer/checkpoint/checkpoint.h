// A checkpoint: one folder, complete or absent.
//
//   DIR/epoch-0002/model.safetensors      parameters and buffers, with PyTorch's names
//   DIR/epoch-0002/optimizer.safetensors  the optimizer's named state, the schedule's position among it
//   DIR/epoch-0002/exchange.safetensors   what the gradient exchange remembers (shared_checkpoint.h), if it does
//   DIR/epoch-0002/state.json             how far the run was, the options a continuation must share, history, sums
//
// state.json is {"format": 2, "sha256": S, "state": {...}}, where S is the SHA-256 of the state's own JSON without
// white space: a changed digit in the history would otherwise go unseen. It holds length and SHA-256 of the other
// files, too. Doubles that a continuation adds to (loss sums) stand there as hexadecimal floats, so that their bits
// come back.
//
// A run's random streams are keyed by seed, epoch and sample, so that the position in the run is all there is to know
// of them. The files' format is that of safetensors.h, the folders' names are those of checkpoint_folder.h.
//
// Written to DIR/.epoch-0002.incomplete, each file synced, then the folder renamed and DIR synced: whoever kills the
// process leaves either the whole folder or one that nobody reads (and the next run that writes there clears away).
//
// The functions here are local: one process, one folder. shared_checkpoint.h is what a group of ranks calls, and
// checkpointer.h what a training run does.
// Errors: std::runtime_error naming the file; DamagedCheckpoint. Thread-safety: pure functions over
// files.
#pragma once

#include <tutti/trainer/checkpoint/checkpoint_folder.h>
#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/step_info.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::trainer {

struct CheckpointState {
  int epoch = 0;          // whole epochs done
  std::int64_t step = 0;  // steps of the next epoch done
  std::int64_t steps_per_epoch = 0;
  int world_size = 1;  // of the run that wrote it; a continuation may have another one
  /// What must be equal when training goes on: option name without dashes -> value.
  std::map<std::string, std::string> options{};
  std::string history{};        // the writer's own JSON text; kept as it is
  std::vector<LossSum> sums{};  // of the `step` steps, by rank; empty at epoch ends
  double seconds = 0;           // that these steps took

  CheckpointPosition position() const { return {.epoch = epoch, .step = step}; }
};

struct Checkpoint {
  CheckpointState state;
  NamedTensors model;
  NamedTensors optimizer;
  NamedTensors exchange{};
};

/// A checkpoint as bytes of files: a copy that does not change while training goes on.
struct EncodedCheckpoint {
  CheckpointState state;
  std::string model;
  std::string optimizer;
  std::string exchange{};  // empty: none
};

/// Copies the tensors. Memory that `encoded` holds already is used again.
void encode_checkpoint(const NamedTensors& model, const NamedTensors& optimizer, const NamedTensors& exchange,
                       EncodedCheckpoint& encoded);

/// Returns the new folder. Creates `dir` when it is missing. Throws when a checkpoint of that position is there
/// already, and after a failure leaves nothing behind that takes room.
std::filesystem::path write_checkpoint(const std::filesystem::path& dir, const EncodedCheckpoint& encoded);
std::filesystem::path write_checkpoint(const std::filesystem::path& dir, const Checkpoint& checkpoint);

/// Checks every checksum before anything is used. Throws DamagedCheckpoint.
Checkpoint read_checkpoint(const std::filesystem::path& folder);

/// An option's text, or `otherwise` where it has none.
std::string text_in(const std::map<std::string, std::string>& options, const std::string& name,
                    const std::string& otherwise = "");

/// By name what differs: the texts of both, "(not set)" where there is none.
std::map<std::string, std::pair<std::string, std::string>> differences(const std::map<std::string, std::string>& a,
                                                                       const std::map<std::string, std::string>& b);

/// One sentence that lists each option that differs with both values, or an empty text.
std::string option_differences(const CheckpointState& saved, const std::map<std::string, std::string>& wanted);

/// Copies `source` into `target`, matched by name. Throws std::runtime_error starting with `origin` and naming the
/// tensors that are missing or left over, or one of another shape or type; `target` is unchanged then.
void assign_tensors(const NamedTensors& target, const NamedTensors& source, const std::string& origin);

/// A checkpoint that is not what was written: a file of it is missing, cut short, or has other bytes. what() names the
/// file. An earlier checkpoint may be whole.
class DamagedCheckpoint : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// From the text of state.json. `file` is named in errors. Throws DamagedCheckpoint for a text that write_checkpoint
/// cannot have made, and std::runtime_error for one of a later format.
CheckpointState state_from_json(const std::string& text, const std::filesystem::path& file);

}  // namespace tutti::trainer
