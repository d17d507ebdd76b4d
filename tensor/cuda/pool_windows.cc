#include <tutti/tensor/cuda/launch.h>
#include <tutti/tensor/cuda/pool_windows.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace tutti::tensor::cuda {
namespace {

// Device, extent, then begin, end and divisor of each window.
using AxisKey = std::vector<std::int64_t>;

AxisKey key_of_axis(std::span<const PoolWindow> windows, std::int64_t extent, Device device) {
  AxisKey key{device.index, extent};
  key.reserve(2 + 3 * windows.size());
  for (const PoolWindow& window : windows) key.insert(key.end(), {window.begin, window.end, window.divisor});
  return key;
}

// The windows, then for each pixel the first one over it, then the end of those over it; on the host.
Tensor table_of(std::span<const PoolWindow> windows, std::int64_t extent) {
  std::vector<int> over;
  for (std::int64_t pixel = 0; pixel < extent; ++pixel) {
    const auto first = std::ranges::partition_point(windows, [&](const PoolWindow& w) { return w.end <= pixel; });
    over.push_back(static_cast<int>(first - windows.begin()));
  }
  for (std::int64_t pixel = 0; pixel < extent; ++pixel) {
    const auto end = std::ranges::partition_point(windows, [&](const PoolWindow& w) { return w.begin <= pixel; });
    over.push_back(static_cast<int>(end - windows.begin()));
  }
  const std::size_t first_bytes = windows.size_bytes();
  const std::size_t over_bytes = over.size() * sizeof(int);
  Tensor table = Tensor::empty({static_cast<std::int64_t>(first_bytes + over_bytes)}, DType::UInt8);
  std::uint8_t* const to = table.data<std::uint8_t>();
  std::memcpy(to, windows.data(), first_bytes);
  std::memcpy(to + first_bytes, over.data(), over_bytes);
  return table;
}

}  // namespace

PoolAxis pool_axis(std::span<const PoolWindow> windows, std::int64_t extent, Device device) {
  static std::mutex mutex;
  static auto* const tables = new std::map<AxisKey, Tensor>;  // never destroyed: the device may be gone by then
  const std::lock_guard lock(mutex);
  Tensor& table = (*tables)[key_of_axis(windows, extent, device)];
  if (!table.defined()) {
    table = table_of(windows, extent).to(device);
    wait("pooling (windows)", device.index);  // other streams read it, too
  }
  const auto* const first = static_cast<const PoolWindow*>(std::as_const(table).raw());
  const auto* const over = reinterpret_cast<const int*>(first + windows.size());
  return {.windows = first,
          .first_over = over,
          .end_over = over + extent,
          .count = static_cast<int>(windows.size()),
          .extent = static_cast<int>(extent)};
}

}  // namespace tutti::tensor::cuda
