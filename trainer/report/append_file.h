// AppendFile: a file that grows through a buffer of fixed size. Nothing is allocated after it was opened.
//
// What was flushed survives the death of the process (not of the machine: nothing is synced). A process that is killed
// loses what the buffer holds, and may leave a last piece half written.
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

namespace tutti::trainer {

class AppendFile {
 public:
  /// Opens or creates `file` and cuts it to its first `keep_bytes` bytes. Throws std::runtime_error naming the file, as
  /// append() and flush() do. The destructor flushes; an error of that is lost.
  explicit AppendFile(const std::filesystem::path& file, std::uint64_t keep_bytes = 0);

  void append(std::string_view bytes);
  /// Hands the buffer to the kernel.
  void flush();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::filesystem::path path_;
  std::unique_ptr<char[]> buffer_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace tutti::trainer
