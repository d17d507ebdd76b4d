// HeldFolder: a private folder below the system's temporary one, removed with the object; where a grader was killed, by
// the next one.
//
// Its owner holds a lock (flock(2)) on the folder, which the kernel takes back with the process. Making one removes
// those of this user that nobody holds; folders of another name, and other users', are left alone.
#pragma once

#include <tutti/tools/labs/sandbox/confined_process.h>

#include <filesystem>

namespace tutti::labs {

class HeldFolder {
 public:
  /// Throws std::runtime_error if no folder can be made.
  HeldFolder();
  ~HeldFolder();
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Descriptor lock_;
};

}  // namespace tutti::labs
