#include <tutti/tensor/cpu/packets.h>
#include <tutti/tensor/cpu/simd.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

namespace tutti::tensor::cpu {
namespace {

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

}  // namespace

/// Eigen saturates at different denormal numbers, by the vectors that it has: what is no normal number is 0 here.
template <typename T>
void exponentials(T* to, const T* from, std::int64_t count) {
  const T least = std::log(std::numeric_limits<T>::min());
  by_packets(to, from, count, [least](const auto& packet) { return (packet < least).select(T{0}, packet.exp()); });
}

template <typename T>
void hyperbolic_tangents(T* to, const T* from, std::int64_t count) {
  by_packets(to, from, count, [](const auto& packet) { return packet.tanh(); });
}

template void exponentials(float*, const float*, std::int64_t);
template void exponentials(double*, const double*, std::int64_t);
template void hyperbolic_tangents(float*, const float*, std::int64_t);
template void hyperbolic_tangents(double*, const double*, std::int64_t);

}  // namespace tutti::tensor::cpu
