// FileSource: reads a file front to back, unpacking gzip on the way.
//
// A file whose name ends in .gz must hold gzip; any other file is read as it is. Memory used is a fixed 256 KiB
// whatever the file claims about itself. The gzip trailer (CRC-32 and length, RFC 1952) is checked when the end is
// reached. Thread-safety: one thread at a time. Ownership: the object owns the open file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace tutti::trainer {

class FileSource {
 public:
  /// Throws DataError naming the file when it cannot be opened or, for .gz, does not begin like gzip.
  explicit FileSource(const std::filesystem::path& path);
  ~FileSource();
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  /// Fills `target` and returns how many bytes it got; fewer than `nbytes` only at the end of the content.
  /// Throws DataError when a gzip file is cut short, damaged, or followed by bytes that are not gzip.
  std::size_t read(void* target, std::size_t nbytes);

  /// No file of this size unpacks to more than this many bytes (deflate expands at most 1032-fold; a plain file not at
  /// all). A length field above it is a lie, known before any memory is taken.
  std::uint64_t largest_content() const;

  const std::filesystem::path& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Unpacks a .gz to its end, keeping nothing. Throws DataError as FileSource does.
void check_gzip(const std::filesystem::path& path);

}  // namespace tutti::trainer
