// Copies between the host and a GPU or two GPUs, and page-locked memory.
#include <tutti/tensor/cuda/memory.h>
#include <tutti/tensor/cuda/runtime.h>
#include <tutti/tensor/ops.h>

#include <list>
#include <map>
#include <memory>
#include <mutex>

namespace tutti::tensor::cuda {
namespace {

bool on_gpu(Device device) { return device.kind == Device::Kind::Cuda; }

void to_gpu(void* to, int device, const void* from, std::size_t bytes, bool may_return_early) {
  use_device(device);
  const cudaStream_t stream = current_stream(device);
  note("copy to the device", device);
  launched(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copy to the device", device, stream);
  if (!may_return_early) wait("copy to the device", device);
}

void to_host(void* to, const void* from, int device, std::size_t bytes) {
  use_device(device);
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, current_stream(device)), "copy to the host", device);
  wait("copy to the host", device);
}

void between_gpus(void* to, int to_device, const void* from, int from_device, std::size_t bytes) {
  const cudaStream_t target = current_stream(to_device);
  const cudaStream_t source = current_stream(from_device);
  Event written(from_device);
  written.record(source);
  written.block(target);
  {
    use_device(to_device);
    note("copy between devices", to_device);
    launched(cudaMemcpyPeerAsync(to, to_device, from, from_device, bytes, target), "copy between devices", to_device,
             target);
  }
  Event read(to_device);
  read.record(target);
  read.block(source);  // the source's memory is not used again before
}

// Page-locking takes a millisecond; blocks are kept for the next tensor of their size.
class PageLockedCache {
 public:
  explicit PageLockedCache(int device) : device_(device) {}

  void* take(std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const auto found = free_.find(bytes);
    if (found != free_.end()) {
      for (auto at = found->second.begin(); at != found->second.end(); ++at) {
        if (!at->passed.passed()) continue;  // a copy from it is still under way
        void* const block = at->block;
        found->second.erase(at);
        return block;
      }
    }
    use_device(device_);
    void* block = nullptr;
    check(cudaHostAlloc(&block, bytes, cudaHostAllocPortable), "page-locked memory", device_);
    return block;
  }

  void give(void* block, std::size_t bytes) noexcept {
    try {
      Event passed(device_);
      passed.record(current_stream(device_));
      const std::scoped_lock lock(mutex_);
      free_[bytes].push_back({block, std::move(passed)});
    } catch (...) {
      // The device is broken, as the next operation will say. The block is lost with it.
    }
  }

 private:
  struct Block {
    void* block;
    Event passed;
  };
  int device_;
  std::mutex mutex_;
  std::map<std::size_t, std::list<Block>> free_;
};

PageLockedCache& page_locked_cache(int device) {
  static std::mutex mutex;
  static auto* const all = new std::map<int, std::unique_ptr<PageLockedCache>>;
  const std::scoped_lock lock(mutex);
  auto& cache = (*all)[device];
  if (cache == nullptr) cache = std::make_unique<PageLockedCache>(device);
  return *cache;
}

void transfer_packed(Tensor& out, const Tensor& in, bool may_return_early) {
  if (out.numel() == 0) return;
  if (may_return_early && on_gpu(out.device()) && !on_gpu(in.device())) {
    return to_gpu(out.raw(), out.device().index, in.raw(), in.nbytes(), true);
  }
  transfer_bytes(out.raw(), out.device(), in.raw(), in.device(), in.nbytes());
}

}  // namespace

void transfer_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  if (bytes == 0) return;
  if (!on_gpu(from_device)) return to_gpu(to, to_device.index, from, bytes, false);
  if (!on_gpu(to_device)) return to_host(to, from, from_device.index, bytes);
  between_gpus(to, to_device.index, from, from_device.index, bytes);
}

void transfer(Tensor& out, const Tensor& in) {
  const Tensor packed = in.contiguous();
  if (out.is_contiguous()) return transfer_packed(out, packed, false);
  Tensor arrived = Tensor::empty(out.shape(), out.dtype(), out.device());
  transfer_packed(arrived, packed, false);
  kernels(out.device()).copy(out, arrived);
}

void transfer_async(Tensor& out, const Tensor& in) {
  if (!out.is_contiguous() || !in.is_contiguous()) return transfer(out, in);
  transfer_packed(out, in, true);
}

Tensor page_locked(const Shape& shape, DType dtype, Device device) {
  require(device);
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  const std::size_t size = DeviceAllocator::block_size(bytes);
  PageLockedCache& cache = page_locked_cache(device.index);
  void* const block = cache.take(size);
  const std::shared_ptr<void> owner(block, [&cache, size](void* memory) { cache.give(memory, size); });
  return Tensor::over(block, owner, shape, dtype);
}

}  // namespace tutti::tensor::cuda
