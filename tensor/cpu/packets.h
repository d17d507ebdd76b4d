// Functions of single elements by Eigen's vector instructions, always: Eigen computes what does not fill a vector, or
// lies before an aligned address, by other instructions, whose last bits differ, so that an element's value would
// depend on where in a batch it lies. Private to tensor/cpu.
#pragma once

#include <tutti/tensor/cpu/simd.h>

#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

namespace tutti::tensor::cpu {

/// to[i] = function(from)[i] for an Eigen array `from`; in place as well.
template <typename T, typename F>
void by_packets(T* to, const T* from, std::int64_t count, F&& function) {
  constexpr std::int64_t kLanes = Simd<T>::kLanes;
  using Packet = Eigen::Array<T, kLanes, 1>;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Packet packet = Eigen::Map<const Packet>(from + i);
    Eigen::Map<Packet>(to + i) = function(packet);
  }
  if (i == count) return;
  Packet packet = Packet::Zero();
  std::copy(from + i, from + count, packet.data());
  packet = function(packet).eval();
  std::copy_n(packet.data(), count - i, to + i);
}

}  // namespace tutti::tensor::cpu
