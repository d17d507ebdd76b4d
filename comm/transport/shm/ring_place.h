// RingPlace: where one end of a ring is: in the stream of bytes, and in the ring's memory.
//
// The two differ by whole rounds, until a lap ends before the ring does: then the next byte lies at the beginning.
// Thread-safety: one thread at a time.
#pragma once

#include <algorithm>
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
    if (offset_ < capacity_) return;
    offset_ -= capacity_;
    touched_ = capacity_;
  }

  void begin_lap() {
    touched_ = std::max(touched_, offset_);
    offset_ = 0;
  }

  /// Whether the next so many bytes were passed over in an earlier lap: their pages are there.
  bool has_touched(std::size_t bytes) const { return std::min(offset_ + bytes, capacity_) <= touched_; }

 private:
  std::size_t capacity_;
  std::size_t offset_ = 0;
  std::uint64_t position_ = 0;
  std::size_t touched_ = 0;  // bytes from the ring's beginning
};

}  // namespace tutti::comm
