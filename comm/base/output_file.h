// OutputFile: a file that appears complete or not at all. All that Tutti writes for its user goes through it.
//
// The bytes go to a new file beside the final one (O_EXCL and O_NOFOLLOW: no link that lies there is followed), which
// is renamed to it at the end. "-" is standard output; a device or a pipe is written directly. Not thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace tutti::comm {

class OutputFile {
 public:
  /// Throws std::system_error naming the file, as all functions here, if it is already clear that it cannot be written.
  explicit OutputFile(std::string path);
  ~OutputFile();  // removes an unfinished file
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(std::string_view bytes);
  /// On return the bytes are on the disk, and the file has its name.
  void finish();

 private:
  [[noreturn]] void fail(int error) const;

  const std::string path_;
  std::string draft_;  // empty: written directly
  int fd_ = -1;
};

/// Writes `bytes` as one OutputFile.
void write_output(const std::string& path, std::string_view bytes);

/// Makes a short file that only this user may read and write, complete or not at all. One that is there already stays
/// (of several processes the first wins), or with `replace` gives way. 0, or errno.
int create_private_file(const std::string& path, std::string_view bytes, bool replace = false);

}  // namespace tutti::comm
