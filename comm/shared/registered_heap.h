// RegisteredHeap: buffers of this rank that the other ranks of its host can reach in place.
//
// Each buffer is a SharedFile; its rank lists it in the segment, and the others map it when an announcement first names
// it. Where no rank shares memory with this one, the buffers are ordinary memory.
// Ownership: a buffer lives until its last handle is gone, even if the group ends before. Others may keep it mapped
// until they map its successor; its memory is free then.
// Thread-safety: all methods may be called from any thread; resolve() by one at a time.
#pragma once

#include <tutti/comm/transport/shm/neighbours.h>
#include <tutti/comm/transport/shm/shared_file.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tutti::comm {

class RegisteredHeap {
 public:
  explicit RegisteredHeap(Neighbours* neighbours);
  ~RegisteredHeap();
  RegisteredHeap(const RegisteredHeap&) = delete;
  RegisteredHeap& operator=(const RegisteredHeap&) = delete;

  /// Zeroed, at least cache-line aligned, every page present. The handle's deleter may run after the heap is gone.
  /// Throws System if there is no memory. When kAllocations are in use, the next is ordinary memory, with a warning.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

  /// How others find `bytes` bytes at `data`; nothing if they do not lie within one registered buffer.
  std::optional<std::uint64_t> describe(const void* data, std::size_t bytes) const;

  /// Where neighbour `index` has what it describes. Throws Protocol if its list does not fit, System if it cannot be
  /// mapped.
  std::byte* resolve(int index, std::uint64_t description, std::size_t bytes);

 private:
  struct Registry;
  struct Mapping {
    std::uint64_t id = 0;
    SharedFile file;
  };

  Neighbours* const neighbours_;
  const std::shared_ptr<Registry> registry_;    // shared with the handles
  std::vector<std::vector<Mapping>> mappings_;  // by neighbour, then by entry
};

}  // namespace tutti::comm
