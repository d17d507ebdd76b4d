// Several ranks' elements combined and handed back to all of them, in one pass: each rank does a part of the vector. A
// part is read once from every rank and written once to every rank, the least that a reduction over memory can do; and
// since one thread alone makes each element, all ranks hold the same bits.
#include <tutti/tensor/cuda/device.h>
#include <tutti/tensor/cuda/launch.h>
#include <tutti/tensor/cuda/peers.h>

#include <cstdint>
#include <type_traits>

namespace tutti::tensor::cuda {
namespace {

template <typename T>
struct PeerAddresses {
  T* at[kMostPeers];
  int count;
};

template <Combine kHow, typename T>
__device__ inline T combined(T a, T b) {
  if constexpr (kHow == Combine::Sum) return static_cast<T>(a + b);
  if constexpr (kHow == Combine::Prod) return static_cast<T>(a * b);
  if constexpr (kHow == Combine::Min) return b < a || b != b ? b : a;  // NaN wins, as on the CPU
  return b > a || b != b ? b : a;
}

template <typename T>
__device__ inline T scaled(T value, T factor) {
  if constexpr (std::is_floating_point_v<T>) return value * factor;
  return value;
}

/// Elements, or packs of 16 bytes where kWide.
template <Combine kHow, typename T, bool kWide>
__global__ void combine_peers_kernel(PeerAddresses<T> peers, std::int64_t first, std::int64_t count, T factor) {
  using Unit = std::conditional_t<kWide, Pack<T>, T>;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    Unit total = reinterpret_cast<const Unit*>(peers.at[0] + first)[i];
    for (int peer = 1; peer < peers.count; ++peer) {
      const Unit other = reinterpret_cast<const Unit*>(peers.at[peer] + first)[i];
      if constexpr (kWide) {
        for (int k = 0; k < Unit::kSize; ++k) total.values[k] = combined<kHow>(total.values[k], other.values[k]);
      } else {
        total = combined<kHow>(total, other);
      }
    }
    if constexpr (kWide) {
      for (int k = 0; k < Unit::kSize; ++k) total.values[k] = scaled(total.values[k], factor);
    } else {
      total = scaled(total, factor);
    }
    for (int peer = 0; peer < peers.count; ++peer) reinterpret_cast<Unit*>(peers.at[peer] + first)[i] = total;
  }
}

template <typename T>
struct PeerPass {
  PeerAddresses<T> peers;
  std::int64_t first;
  std::int64_t count;
  T factor;
};

template <Combine kHow, typename T>
void run_pass(const Operation& op, const PeerPass<T>& pass, bool aligned) {
  const std::int64_t wide = aligned ? pass.count / Pack<T>::kSize : 0;
  op.launch(op.over(wide), combine_peers_kernel<kHow, T, true>, pass.peers, pass.first, wide, pass.factor);
  const std::int64_t done = wide * Pack<T>::kSize;
  op.launch(op.over(pass.count - done), combine_peers_kernel<kHow, T, false>, pass.peers, pass.first + done,
            pass.count - done, pass.factor);
}

template <typename T>
void combine_as(const Operation& op, std::span<std::byte* const> peers, std::int64_t first, std::int64_t count,
                Combine combine, double factor) {
  PeerPass<T> pass{.peers = {}, .first = first, .count = count, .factor = static_cast<T>(factor)};
  bool aligned = true;
  for (std::byte* const peer : peers) {
    T* const address = reinterpret_cast<T*>(peer);
    pass.peers.at[pass.peers.count++] = address;
    aligned = aligned && all_aligned(address + first);
  }
  switch (combine) {
    case Combine::Sum:
      return run_pass<Combine::Sum>(op, pass, aligned);
    case Combine::Prod:
      return run_pass<Combine::Prod>(op, pass, aligned);
    case Combine::Min:
      return run_pass<Combine::Min>(op, pass, aligned);
    case Combine::Max:
      return run_pass<Combine::Max>(op, pass, aligned);
  }
}

}  // namespace

void combine_peers(std::span<std::byte* const> peers, std::int64_t first, std::int64_t count, DType dtype,
                   Combine combine, double factor, Device device) {
  if (peers.empty() || peers.size() > static_cast<std::size_t>(kMostPeers)) {
    throw std::invalid_argument("combine_peers: " + std::to_string(peers.size()) + " ranks, expected 1 to " +
                                std::to_string(kMostPeers));
  }
  const Operation op("combine over ranks", device);
  switch (dtype) {
    case DType::Float32:
      return combine_as<float>(op, peers, first, count, combine, factor);
    case DType::Float64:
      return combine_as<double>(op, peers, first, count, combine, factor);
    case DType::Int64:
      return combine_as<std::int64_t>(op, peers, first, count, combine, factor);
    case DType::UInt8:
      return combine_as<std::uint8_t>(op, peers, first, count, combine, factor);
  }
}

}  // namespace tutti::tensor::cuda
