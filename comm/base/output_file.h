// OutputFile: a file that appears complete or not at all. All that Tutti writes for its user goes through it.
//
// The bytes go to a new file beside the final one (O_EXCL and O_NOFOLLOW: no link that lies there is followed), which
// takes its name in the end. "-" is standard output; a device or a pipe is written directly. Not thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace tutti::comm {

class OutputFile {
 public:
  /// Throws std::system_error naming the file, as all functions here, if it is clear already that it cannot be written.
  explicit OutputFile(std::string path);
  ~OutputFile();  // removes what is not finished
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  /// The bytes are on the disk, and the file has its name.
  void finish();

 private:
  [[noreturn]] void fail(int error) const;

  const std::string path_;
  std::string draft_;  // empty: written directly
  int fd_ = -1;
};

/// Writes `bytes` as one OutputFile.
void write_output(const std::string& path, std::string_view bytes);

}  // namespace tutti::comm
