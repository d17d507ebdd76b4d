// The state of the emulated runtime: devices, streams, events, graphs, page-locked memory. Private to the emulator; all
// of it under one lock, which is held while a kernel runs too.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "device_memory.h"

namespace cuda_emulator {

using Work = std::function<void()>;

struct Queue {
  int device = 0;
  std::deque<Work> waiting;
  std::uint64_t enqueued = 0;
  std::uint64_t executed = 0;
  cudaGraph_t capture = nullptr;  // where work goes instead
  bool began_capture = false;
};

struct Device {
  explicit Device(int index) : memory(index) {}
  DeviceMemory memory;
  std::set<Queue*> queues;
  std::uint64_t kernels_until_fault = 0;  // 0 = none planned
  cudaError_t planned = cudaSuccess;
  cudaError_t fault = cudaSuccess;
  bool chosen = false;  // by a thread, since take_contexts()
};

struct Imported {
  int device;
  std::size_t bytes;
};

class World {
 public:
  World();

  std::recursive_mutex lock;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<const std::byte*, std::size_t> page_locked;
  std::map<std::byte*, Imported> imported;  // other processes' memory
  std::uint64_t launches = 0;
  std::map<int, std::unique_ptr<CUstream_st>> default_streams;

  Queue& queue_of(cudaStream_t stream);
  void enqueue(Queue& queue, Work work);
  /// Runs what the queue holds up to its `ticket`-th piece of work.
  void run_until(Queue& queue, std::uint64_t ticket);
  void run_all(int device);
  cudaError_t state_of(int device) { return devices[static_cast<std::size_t>(device)]->fault; }
  /// The device whose memory holds `pointer`; -1 for host memory.
  int device_of(const void* pointer) const;
  bool is_page_locked(const void* pointer) const;
  /// False when the bytes run over the end of a device block.
  bool in_bounds(const void* pointer, std::size_t bytes) const;

 private:
  void open();
  void close();
  int depth_ = 0;
};

World& world();
/// The calling thread's current device.
int& current_device();
/// Whether the thread records a graph and may not do what looks at the device beside it, unless it said that it knows
/// (cudaStreamCaptureModeRelaxed). The recording is invalid then.
bool spoils_capture();
/// Keeps `error` for cudaGetLastError and returns it.
cudaError_t result(cudaError_t error);

}  // namespace cuda_emulator

struct CUstream_st {
  std::shared_ptr<cuda_emulator::Queue> queue;
};

struct CUevent_st {
  std::shared_ptr<cuda_emulator::Queue> queue;  // null = never recorded
  std::uint64_t ticket = 0;
  cudaGraph_t capture = nullptr;
};

struct CUgraph_st {
  std::vector<cuda_emulator::Work> work;
  std::vector<std::shared_ptr<cuda_emulator::Queue>> queues;  // that take part in the capture
  bool invalid = false;
};

struct CUgraphExec_st {
  std::vector<cuda_emulator::Work> work;
};
