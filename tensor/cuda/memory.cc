#include <tutti/tensor/cuda/memory.h>
#include <tutti/tensor/cuda/memory_guard.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::tensor::cuda {
namespace {

constexpr std::size_t kSmallest = 512;
constexpr std::size_t kLarge = std::size_t{256} << 20;  // from here on in steps of kLargeStep: a fifth would be much
constexpr std::size_t kLargeStep = std::size_t{32} << 20;

// TUTTI_CUDA_CACHE=0 is for memory checkers: blocks are as long as was asked for, and none is used again.
const char* const setting = std::getenv("TUTTI_CUDA_CACHE");
const bool caches = setting == nullptr || *setting != '0';

std::string mebibytes(std::size_t bytes) { return std::to_string((bytes + (1 << 19)) >> 20) + " MiB"; }

// cudaMalloc beside a recording of this thread's; without it the recording would be invalid.
cudaError_t system_allocate(void** block, std::size_t size) {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  const cudaError_t status = cudaMalloc(block, size);
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  return status;
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

}  // namespace

std::size_t DeviceAllocator::block_size(std::size_t bytes) {
  if (!caches) return std::max<std::size_t>(bytes, 1);
  if (bytes <= kSmallest) return kSmallest;
  if (bytes > kLarge) return (bytes + kLargeStep - 1) / kLargeStep * kLargeStep;
  const std::size_t step = std::max(kSmallest, std::bit_floor(bytes - 1) / 4);
  return (bytes + step - 1) / step * step;
}

void* DeviceAllocator::take(std::size_t size, cudaStream_t stream) {
  FreeBlocks& blocks = free_[stream];
  const auto found = blocks.lower_bound(size);
  if (!caches || found == blocks.end() || found->first > size + size / 4) return nullptr;
  void* const address = found->second;
  const std::size_t actual = found->first;
  blocks.erase(found);
  cached_bytes_ -= actual;
  live_bytes_ += actual;
  live_[address] = {.size = actual, .stream = stream};
  return address;
}

void* DeviceAllocator::allocate(std::size_t bytes, cudaStream_t stream) {
  const std::size_t size = block_size(bytes);
  const std::scoped_lock lock(mutex_);
  use_device(device_);
  if (!is_capturing(stream)) collect();
  void* address = take(size, stream);
  if (address == nullptr) {
    cudaError_t status = system_allocate(&address, size);
    if (status == cudaErrorMemoryAllocation) {
      (void)cudaGetLastError();
      trim_locked();
      status = system_allocate(&address, size);
    }
    if (status == cudaErrorMemoryAllocation) throw_out_of_memory(bytes);
    check(status, "cudaMalloc", device_);
    ++system_allocations_;
    live_bytes_ += size;
    live_[address] = {.size = size, .stream = stream};
  }
  guard_taken(address, bytes, live_[address].size, stream);
  return address;
}

void DeviceAllocator::throw_out_of_memory(std::size_t bytes) {
  (void)cudaGetLastError();
  std::size_t free = 0;
  std::size_t total = 0;
  (void)cudaMemGetInfo(&free, &total);
  const std::string last = last_operations(device_);
  throw std::runtime_error("out of memory: a tensor of " + std::to_string(bytes) + " bytes does not fit on " +
                           name(Device{Device::Kind::Cuda, device_}) + ": " + mebibytes(free) + " of " +
                           mebibytes(total) + " are free, " + mebibytes(live_bytes_) + " in use by tensors, " +
                           mebibytes(cached_bytes_) + " cached and not to be given back" +
                           (last.empty() ? "" : " (" + last + ")") +
                           "; use a smaller batch or model, TUTTI_CUDA_GRAPHS=0, or end other programs on the device");
}

void DeviceAllocator::put(void* address, const Block& block) {
  guard_given_back(address, block.size, block.stream);
  cached_bytes_ += block.size;
  free_[block.stream].emplace(block.size, address);
}

void DeviceAllocator::deallocate(void* address, cudaStream_t stream) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return;
  const Block block = found->second;
  live_.erase(found);
  live_bytes_ -= block.size;
  try {
    // While a graph is recorded there is no event to wait for; what is recorded on another stream than the block's
    // keeps it until trim() has waited for the device.
    if (stream == block.stream || is_capturing(stream) || is_capturing(block.stream)) return put(address, block);
    waiting_.push_back({address, block, Event(device_)});
    waiting_.back().passed.record(stream);
  } catch (...) {
    // The device is broken, as the next operation will say. The block is lost with it.
  }
}

void DeviceAllocator::collect() {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (!at->passed.passed()) {
      ++at;
      continue;
    }
    put(at->address, at->block);
    at = waiting_.erase(at);
  }
}

void DeviceAllocator::hold(cudaStream_t stream) {
  const std::scoped_lock lock(mutex_);
  held_.insert(stream);
}

void DeviceAllocator::release(cudaStream_t stream) {
  const std::scoped_lock lock(mutex_);
  held_.erase(stream);
}

void DeviceAllocator::trim() {
  const std::scoped_lock lock(mutex_);
  trim_locked();
}

void DeviceAllocator::trim_locked() {
  use_device(device_);
  if (is_capturing(current_stream(device_))) return;  // nothing may be waited for now
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize", device_);
  collect();
  for (auto& [stream, blocks] : free_) {
    if (held_.contains(stream)) continue;
    for (const auto& [size, address] : blocks) {
      guard_taken(address, size, size, stream);
      (void)cudaFree(address);
      cached_bytes_ -= size;
    }
    blocks.clear();
  }
}

MemoryUse DeviceAllocator::use() {
  const std::scoped_lock lock(mutex_);
  return {.live_bytes = live_bytes_, .cached_bytes = cached_bytes_, .system_allocations = system_allocations_};
}

DeviceAllocator& allocator(int device) {
  static std::mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<DeviceAllocator>>;
  const std::scoped_lock lock(mutex);
  while (all->size() <= static_cast<std::size_t>(device)) {
    all->push_back(std::make_unique<DeviceAllocator>(static_cast<int>(all->size())));
  }
  return *(*all)[static_cast<std::size_t>(device)];
}

}  // namespace tutti::tensor::cuda
