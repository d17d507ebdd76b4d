// The runtime's functions on memory: allocation, page-locked memory, copies.
#include <cstdlib>
#include <cstring>

#include "world.h"

using cuda_emulator::current_device;
using cuda_emulator::Queue;
using cuda_emulator::result;
using cuda_emulator::world;
using Guard = std::scoped_lock<std::recursive_mutex>;

cudaError_t cudaMalloc(void** block, std::size_t bytes) {
  const Guard guard(world().lock);
  if (cuda_emulator::spoils_capture()) return result(cudaErrorStreamCaptureUnsupported);
  if (world().devices.empty()) return result(cudaErrorNoDevice);
  auto& device = *world().devices[static_cast<std::size_t>(current_device())];
  if (device.fault != cudaSuccess) return result(device.fault);
  *block = device.memory.allocate(bytes);
  return result(*block == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaFree(void* block) {
  const Guard guard(world().lock);
  if (block == nullptr) return cudaSuccess;
  const int device = world().device_of(block);
  if (device < 0) return result(cudaErrorInvalidValue);
  world().run_all(device);
  const bool released = world().devices[static_cast<std::size_t>(device)]->memory.release(block);
  return result(released ? world().state_of(device) : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Guard guard(world().lock);
  const auto& memory = world().devices[static_cast<std::size_t>(current_device())]->memory;
  *free = memory.free_bytes();
  *total = memory.total();
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** block, std::size_t bytes, unsigned) {
  const Guard guard(world().lock);
  if (cuda_emulator::spoils_capture()) return result(cudaErrorStreamCaptureUnsupported);
  *block = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096 + (bytes == 0 ? 4096 : 0));
  if (*block == nullptr) return result(cudaErrorMemoryAllocation);
  world().page_locked[static_cast<std::byte*>(*block)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* block) {
  const Guard guard(world().lock);
  if (block == nullptr) return cudaSuccess;
  if (world().page_locked.erase(static_cast<std::byte*>(block)) == 0) return result(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < world().devices.size(); ++i) world().run_all(static_cast<int>(i));
  std::free(block);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* block, std::size_t bytes, unsigned) {
  const Guard guard(world().lock);
  world().page_locked[static_cast<std::byte*>(block)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* block) {
  const Guard guard(world().lock);
  return result(world().page_locked.erase(static_cast<std::byte*>(block)) == 0 ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaHostGetDevicePointer(void** on_device, void* on_host, unsigned) {
  const Guard guard(world().lock);
  *on_device = on_host;
  return result(world().is_page_locked(on_host) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Guard guard(world().lock);
  Queue& queue = world().queue_of(stream);
  if (world().state_of(queue.device) != cudaSuccess) return result(world().state_of(queue.device));
  const bool from_device = world().device_of(from) >= 0;
  const bool to_device = world().device_of(to) >= 0;
  const bool kind_is_true = from_device == (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) &&
                            to_device == (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice);
  if (!kind_is_true || !world().in_bounds(from, bytes) || !world().in_bounds(to, bytes)) {
    return result(cudaErrorInvalidValue);
  }
  if (bytes == 0) return cudaSuccess;
  const bool pageable = (!from_device && !world().is_page_locked(from)) || (!to_device && !world().is_page_locked(to));
  if (pageable && queue.capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  // Pageable memory, too, is read in the stream's order: CUDA promises no more.
  world().enqueue(queue, [to, from, bytes] { std::memmove(to, from, bytes); });
  if (pageable && from_device) world().run_until(queue, queue.enqueued);
  return result(world().state_of(queue.device));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const Guard guard(world().lock);
  Queue& queue = world().queue_of(stream);
  if (world().device_of(to) < 0 || !world().in_bounds(to, bytes)) return result(cudaErrorInvalidValue);
  world().enqueue(queue, [=] { std::memset(to, value, bytes); });
  return result(world().state_of(queue.device));
}
