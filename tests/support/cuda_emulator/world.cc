#include "world.h"

#include <sys/mman.h>

#include <cstdlib>

#include "emulator.h"
#include "grid.h"

namespace cuda_emulator {
namespace {

constexpr std::size_t kLongQueue = 512;  // a device would have begun by then

int configured_devices() {
  const char* text = std::getenv("TUTTI_EMULATOR_DEVICES");
  return text == nullptr ? 2 : std::atoi(text);
}

thread_local int device_of_thread = 0;
thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

World& world() {
  static World* const world = new World;  // tensors in static objects may die late
  return *world;
}

int& current_device() { return device_of_thread; }

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

World::World() {
  for (int i = 0; i < configured_devices(); ++i) devices.push_back(std::make_unique<Device>(i));
}

Queue& World::queue_of(cudaStream_t stream) {
  if (stream == nullptr) {
    auto& own = default_streams[device_of_thread];
    if (own == nullptr) {
      own = std::make_unique<CUstream_st>();
      own->queue = std::make_shared<Queue>();
      own->queue->device = device_of_thread;
      devices[static_cast<std::size_t>(device_of_thread)]->queues.insert(own->queue.get());
    }
    stream = own.get();
  }
  return *stream->queue;
}

void World::enqueue(Queue& queue, Work work) {
  devices[static_cast<std::size_t>(current_device())]->chosen = true;
  if (queue.capture != nullptr) {
    queue.capture->work.push_back(std::move(work));
    return;
  }
  queue.waiting.push_back(std::move(work));
  ++queue.enqueued;
  if (queue.waiting.size() > kLongQueue) run_until(queue, queue.enqueued - kLongQueue / 2);
}

void World::run_until(Queue& queue, std::uint64_t ticket) {
  open();
  while (queue.executed < ticket && !queue.waiting.empty()) {
    const Work work = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    ++queue.executed;
    if (state_of(queue.device) == cudaSuccess) work();
  }
  close();
}

void World::run_all(int device) {
  const std::set<Queue*> queues = devices[static_cast<std::size_t>(device)]->queues;
  for (Queue* queue : queues) run_until(*queue, queue->enqueued);
}

int World::device_of(const void* pointer) const {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i]->memory.contains(pointer)) return static_cast<int>(i);
  }
  for (const auto& [base, block] : imported) {
    if (pointer >= base && pointer < base + block.bytes) return block.device;
  }
  return -1;
}

bool World::is_page_locked(const void* pointer) const {
  const auto* at = static_cast<const std::byte*>(pointer);
  const auto after = page_locked.upper_bound(at);
  if (after == page_locked.begin()) return false;
  const auto& [begin, bytes] = *std::prev(after);
  return at < begin + bytes;
}

bool World::in_bounds(const void* pointer, std::size_t bytes) const {
  for (const auto& device : devices) {
    if (!device->memory.contains(pointer)) continue;
    const auto [begin, size] = device->memory.block_of(pointer);
    return begin != nullptr && static_cast<const std::byte*>(pointer) + bytes <= begin + size;
  }
  return true;
}

void World::open() {
  if (depth_++ > 0) return;
  for (const auto& device : devices) device->memory.open();
  for (const auto& [base, block] : imported) mprotect(base, block.bytes, PROT_READ | PROT_WRITE);
}

void World::close() {
  if (--depth_ > 0) return;
  for (const auto& device : devices) device->memory.close();
  for (const auto& [base, block] : imported) mprotect(base, block.bytes, PROT_NONE);
}

cudaError_t enqueue_kernel(const cudaLaunchConfig_t& config, Work thread) {
  const std::scoped_lock guard(world().lock);
  const dim3 grid = config.gridDim;
  const dim3 block = config.blockDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 ||
      threads == 0 || threads > 1024 || block.z > 64 || config.dynamicSmemBytes > 48 << 10) {
    return result(cudaErrorInvalidConfiguration);
  }
  Queue& queue = world().queue_of(config.stream);
  if (queue.device != current_device()) return result(cudaErrorInvalidResourceHandle);
  Device& device = *world().devices[static_cast<std::size_t>(queue.device)];
  if (device.fault != cudaSuccess) return result(device.fault);
  ++world().launches;
  world().enqueue(queue, [grid, block, bytes = config.dynamicSmemBytes, thread = std::move(thread), &device] {
    if (device.kernels_until_fault > 0 && --device.kernels_until_fault == 0) {
      device.fault = device.planned;
      return;
    }
    run_grid(grid, block, bytes, thread);
  });
  return cudaSuccess;
}

void fault_at(int device, std::uint64_t after, cudaError_t error) {
  const std::scoped_lock guard(world().lock);
  Device& state = *world().devices[static_cast<std::size_t>(device)];
  state.kernels_until_fault = after;
  state.planned = error;
}

void clear_fault(int device) {
  const std::scoped_lock guard(world().lock);
  world().devices[static_cast<std::size_t>(device)]->fault = cudaSuccess;
  last_error = cudaSuccess;
}

std::vector<bool> take_contexts() {
  const std::scoped_lock guard(world().lock);
  std::vector<bool> chosen;
  for (const auto& device : world().devices) chosen.push_back(std::exchange(device->chosen, false));
  return chosen;
}

std::uint64_t launches() {
  const std::scoped_lock guard(world().lock);
  return world().launches;
}

}  // namespace cuda_emulator

cudaError_t cudaGetLastError() { return std::exchange(cuda_emulator::last_error, cudaSuccess); }
