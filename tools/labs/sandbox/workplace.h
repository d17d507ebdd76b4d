// Workplace: a folder of the grader's own, for a submission's program and for an empty root. It is below the system's
// temporary folder, and removed with the object; where a grader was killed, by the next one.
//
// Its owner holds a lock (flock(2)) on the folder, which the kernel takes back with the process. Making one removes
// those of this user that nobody holds; folders of another name, and other users', are left alone.
#pragma once

#include <tutti/tools/labs/sandbox/confined_process.h>

#include <filesystem>

namespace tutti::labs {

class Workplace {
 public:
  /// Throws std::runtime_error if no folder can be made.
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path empty_folder() const { return path_ / "empty"; }

 private:
  std::filesystem::path path_;
  Descriptor lock_;
};

}  // namespace tutti::labs
