// The transformed weights of conv_winograd.h, packed for gathered_product.h. Private to tensor/cpu.
#pragma once

#include <tutti/tensor/cpu/conv_weights.h>
#include <tutti/tensor/cpu/cpu_kernels.h>
#include <tutti/tensor/cpu/winograd_transforms.h>
#include <tutti/tensor/tensor.h>
#include <tutti/tensor/thread_pool.h>

#include <algorithm>
#include <cstdint>

namespace tutti::tensor::cpu {

inline constexpr int kWinogradProducts = kWinogradSide * kWinogradSide;

/// For each panel of columns kWinogradProducts panels of (depth, columns). A vector lies between them: extents are
/// often powers of two, and what is written together must not fall into the same few cache sets.
template <typename T>
class WinogradWeights {
  using S = Simd<T>;
  using Vec = typename S::Vec;

 public:
  /// pack(memory, part) lays out 3x3 weights as conv_weights.h says. turned: their last tap is the first.
  template <typename Pack>
  WinogradWeights(std::int64_t depth, std::int64_t breadth, bool turned, const Pack& pack)
      : depth_(depth), panels_(breadth), memory_(Tensor::empty({begin(panels_.count())}, float_type<T>())) {
    constexpr std::int64_t kBlock = 32;  // rows that are packed at a time, so that they stay in the cache
    const std::int64_t blocks = (depth + kBlock - 1) / kBlock;
    parallel_for(panels_.count() * blocks, 1, [&](std::int64_t first, std::int64_t end) {
      Tensor packed = Tensor::empty({kTaps * kBlock * kPanelVectors * S::kLanes}, float_type<T>());
      for (std::int64_t unit = first; unit < end; ++unit) {
        const std::int64_t panel = unit / blocks;
        const std::int64_t deep = unit % blocks * kBlock;
        const WeightPart part{panels_.first(panel), panels_.vectors(panel), deep, std::min(kBlock, depth - deep)};
        pack(packed.data<T>(), part);
        transform(packed.data<T>(), part, panel, turned);
      }
    });
  }

  const Panels<T>& panels() const { return panels_; }
  const T* panel(std::int64_t panel, int product) const {
    return memory_.data<T>() + begin(panel) + product * (depth_ * panels_.vectors(panel) + 1) * S::kLanes;
  }

 private:
  static constexpr int kTaps = kWinogradKernel * kWinogradKernel;

  std::int64_t begin(std::int64_t panel) const {
    return kWinogradProducts * (panels_.first(panel) * depth_ + panel * S::kLanes);
  }

  void transform(const T* packed, const WeightPart& part, std::int64_t panel, bool turned) {
    const std::int64_t width = part.vectors * S::kLanes;
    const std::int64_t between = depth_ * width + S::kLanes;
    T* to = memory_.data<T>() + begin(panel) + part.deep * width;
    for (std::int64_t at = 0; at < part.depth * width; at += S::kLanes) {
      Vec taps[kTaps], out[kWinogradProducts];
#pragma GCC unroll 16
      for (int tap = 0; tap < kTaps; ++tap) {
        taps[tap] = S::load(packed + (turned ? kTaps - 1 - tap : tap) * part.depth * width + at);
      }
      winograd_transform<WinogradWeight, T>(taps, out);
#pragma GCC unroll 36
      for (int i = 0; i < kWinogradProducts; ++i) S::store(to + i * between + at, out[i]);
    }
  }

  std::int64_t depth_;
  Panels<T> panels_;
  Tensor memory_;
};

}  // namespace tutti::tensor::cpu
