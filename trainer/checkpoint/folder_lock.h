// FolderLock: one run at a time writes checkpoints to a folder.
//
//   const FolderLock lock(dir);   // throws if another process holds it
//
// An flock(2) on DIR/.lock, which the kernel lets go of when its process ends, in whatever way: a killed run never bars
// its own continuation. The file stays; it says who held the lock last. Over NFS it works between hosts as far as the
// server's locks do. Where the file system knows no locks the folder is used without.
// Thread-safety: none needed; the object belongs to one thread.
#pragma once

#include <chrono>
#include <filesystem>

namespace tutti::trainer {

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
