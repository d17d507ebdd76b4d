// SharedFile: memory that other processes of this host can map.
//
// The file has no name (memfd): it is never left behind by a killed process, and is not limited by the size of
// /dev/shm. Another process of the same user opens it through /proc/<pid>/fd/<descriptor> while the owner lives; what
// it has mapped stays valid after the owner has gone. Its length is sealed, so it cannot be cut short under a reader.
// Thread-safety: none needed; a SharedFile does not change after construction.
#pragma once

#include <tutti/comm/wire/socket.h>

#include <cstddef>
#include <memory>
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

  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return data_.get_deleter().size; }
  /// For others to open; -1 in a file that was opened.
  int descriptor() const { return descriptor_.get(); }

 private:
  struct Unmap {
    std::size_t size;
    void operator()(std::byte* data) const;
  };
  void map(int descriptor, std::size_t bytes, int flags, const std::string& what);

  std::unique_ptr<std::byte, Unmap> data_;
  Socket descriptor_;
};

}  // namespace tutti::comm
