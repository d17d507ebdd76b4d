// The folder that a run's checkpoints lie in: names, order, what is left over, and what may go.
//
//   DIR/epoch-0002               after two whole epochs
//   DIR/epoch-0002-step-000020   after two whole epochs and 20 steps of the third
//   DIR/epoch-0001.damaged       set aside: cannot be read, and is no checkpoint any more
//   DIR/.epoch-0003.incomplete   being written, or left by a run that was killed
//   DIR/.epoch-0001.deleted      being deleted, likewise
//   DIR/.lock                    held by the run that writes here (FolderLock)
//
// Order is by name alone, which `ls` shows too; clocks and modification times play no part. A name of the first two
// kinds appears by one rename of a folder that is on the disk already, and disappears by one.
//
// Errors: std::runtime_error naming the path. Thread-safety: pure functions over files.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tutti::trainer {

/// How far a run has come: `epoch` whole epochs and `step` steps of the next.
struct CheckpointPosition {
  int epoch = 0;
  std::int64_t step = 0;
  auto operator<=>(const CheckpointPosition&) const = default;
};

/// "epoch-0002", "epoch-0002-step-000020".
std::string checkpoint_folder_name(int epoch, std::int64_t step = 0);

/// The inverse; nothing for every other name.
std::optional<CheckpointPosition> checkpoint_position(const std::string& folder_name);

/// All complete checkpoints, the newest first; empty when `dir` does not exist.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& dir);

/// The first of them.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& dir);

/// Removes what killed runs have left half written or half deleted. For the one run that writes to `dir`.
void clear_left_overs(const std::filesystem::path& dir);

/// Deletes all but the `keep` newest checkpoints; 0 keeps all.
void remove_old_checkpoints(const std::filesystem::path& dir, int keep);

/// Renames a checkpoint that cannot be read to "<name>.damaged" ("<name>.damaged-2", ...), so that it is no longer
/// taken for one. Returns the new name.
std::filesystem::path set_aside(const std::filesystem::path& folder);

// FolderLock: one run at a time writes checkpoints to a folder.
//
//   const FolderLock lock(dir);   // throws if another process holds it
//
// An flock(2) on DIR/.lock, which the kernel lets go of when its process ends, in whatever way: a killed run never bars
// its own continuation. The file stays; it says who held the lock last. Over NFS it works between hosts as far as the
// server's locks do. Where the file system knows no locks the folder is used without.
// Thread-safety: none needed; the object belongs to one thread.

class FolderLock {
 public:
  /// Creates `dir` if need be. Waits up to `patience` for a holder that is just ending, then throws std::runtime_error
  /// saying who holds it and what to do.
  explicit FolderLock(const std::filesystem::path& dir, std::chrono::milliseconds patience = std::chrono::seconds(2));
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace tutti::trainer
