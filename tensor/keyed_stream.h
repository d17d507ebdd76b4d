// Random numbers that are a function of a key: the same whichever rank, thread or machine draws them, and in any order.
//
// What is random about one sample (its dropout mask, its augmentation) comes from a stream keyed by
// sample_key(seed, epoch, sample), so that training does not depend on how samples are dealt out to ranks.
// Thread-safety: a stream is a value of one thread. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3" (Philox4x32-10), SC'11, https://doi.org/10.1145/2063384.2063405
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace tutti::tensor {

/// The bijection itself: 128 bits of counter under a 64-bit key.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// A key for everything that is random about `sample` (its index in the data set) in `epoch`.
std::uint64_t sample_key(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample);

class KeyedStream {
 public:
  /// `purpose` tells the streams of one key apart: one number for augmentation, one for each dropout layer.
  KeyedStream(std::uint64_t key, std::uint64_t purpose);

  std::uint32_t next();
  /// out[i] = next() for each i in turn, several times as fast.
  void fill(std::span<std::uint32_t> out);
  /// In [0, 1), a multiple of 2^-24.
  float uniform();
  /// In [0, below); below > 0. Without bias that could be measured: 32 bits are scaled down.
  std::uint32_t below(std::uint32_t below);

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

}  // namespace tutti::tensor
