// SharedFile: memory that other processes of this host can map.
//
// The file has no name (memfd): it is never left behind by a killed process, and is not limited by the size of
// /dev/shm. Another process of the same user opens it through /proc/<pid>/fd/<descriptor> while the owner lives; what
// it has mapped stays valid after the owner has gone. Its length is sealed, so it cannot be cut short under a reader.
// Thread-safety: none needed; a SharedFile does not change after construction.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>

namespace tutti::comm {

class SharedFile {
 public:
  /// New zeroed memory; pages are taken when they are first touched, all at once if `populate`. `label` shows up in
  /// /proc/<pid>/maps. Throws System.
  static SharedFile create(const std::string& label, std::size_t bytes, bool populate = false);

  /// Maps what process `owner` created. Throws System, naming the path, if it cannot be opened, is not sealed, or is
  /// shorter than `bytes`.
  static SharedFile open(pid_t owner, int descriptor, std::size_t bytes);

  SharedFile() = default;
  SharedFile(SharedFile&& other) noexcept;
  SharedFile& operator=(SharedFile&& other) noexcept;
  ~SharedFile();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// For others to open; -1 in a file that was opened.
  int descriptor() const { return descriptor_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
};

}  // namespace tutti::comm
