// RingPlace: where one end of a ring is: in the stream of bytes, and in the ring's memory.
//
// The two differ by whole rounds. Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::comm {

class RingPlace {
 public:
  explicit RingPlace(std::size_t capacity) : capacity_(capacity) {}

  std::uint64_t position() const { return position_; }
  std::size_t offset() const { return offset_; }

  /// Passes over so many bytes, no more than the capacity.
  void advance(std::size_t bytes) {
    position_ += bytes;
    offset_ += bytes;
    if (offset_ >= capacity_) offset_ -= capacity_;
  }

 private:
  std::size_t capacity_;
  std::size_t offset_ = 0;
  std::uint64_t position_ = 0;
};

}  // namespace tutti::comm
