// state.json: a checkpoint's state and the records of its other files, as text.
//
// Format 2 is {"format": 2, "sha256": S, "state": {...}}, where S is the SHA-256 of the state's own JSON without white
// space: a changed digit in the history would otherwise go unseen. Format 1 (no steps, no sum of its own) can be read.
// Doubles that a continuation adds to (loss sums) stand there as hexadecimal floats, so that their bits come back.
#pragma once

#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/file_record.h>

#include <filesystem>
#include <map>
#include <string>

namespace tutti::trainer {

struct SavedState {
  CheckpointState state;
  std::map<std::string, FileRecord> files;  // by name
};

std::string state_to_json(const SavedState& saved);

/// `file` is named in errors. Throws DamagedCheckpoint for a text that state_to_json cannot have made, and
/// std::runtime_error for one of a later format.
SavedState state_from_json(const std::string& text, const std::filesystem::path& file);

}  // namespace tutti::trainer
