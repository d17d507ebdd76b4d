// AppendFile: a file that grows through a buffer of fixed size. Nothing is allocated after it was opened.
//
// What was flushed survives the death of the process (not of the machine: nothing is synced). A process that is killed
// loses what the buffer holds, and may leave a last piece half written.
// Thread-safety: none. Ownership: the descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

namespace tutti::trainer {

class AppendFile {
 public:
  /// Opens or creates `file` and cuts it to its first `keep_bytes` bytes. Throws std::runtime_error naming the file.
  explicit AppendFile(const std::filesystem::path& file, std::uint64_t keep_bytes = 0);
  /// Flushes; an error of that is lost.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Room for at least `nbytes` (at most kBuffer), to be filled from the front; used() says how much of it was.
  /// Flushes when there is too little left. Throws as flush().
  char* room(std::size_t nbytes);
  void used(std::size_t nbytes) { filled_ += nbytes; }

  /// Throws as flush().
  void append(std::string_view bytes);

  /// Hands the buffer to the kernel. Throws std::runtime_error naming the file and errno's words; the buffer is empty
  /// afterwards in any case.
  void flush();

  static constexpr std::size_t kBuffer = 64 * 1024;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::unique_ptr<char[]> buffer_;
  std::size_t filled_ = 0;
};

}  // namespace tutti::trainer
