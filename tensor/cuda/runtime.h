// The runtime under the kernels: errors, the current device, streams and events.
//
// Each device has one main stream that all threads of the process use, so that a tensor made by one thread may be used
// by another without a thought. A thread that wants work to overlap (prefetch, communication) or records a graph puts a
// StreamScope around it, and orders the two streams with events.
//
// Errors: CUDA reports a kernel's fault at some later call. Its text names the operation of that call and those
// launched since the device was last known to be well; with TUTTI_CUDA_SYNC=1 in the environment every operation is
// waited for, and the text names the one at fault.
#pragma once

#include <cuda_runtime_api.h>
#include <tutti/tensor/device.h>

#include <cstdint>
#include <string>
#include <utility>

namespace tutti::tensor::cuda {

/// Throws std::runtime_error unless `status` is cudaSuccess: "cuda:0: add: an illegal memory access was encountered
/// (cudaErrorIllegalAddress); ...".
void check(cudaError_t status, const char* operation, int device);

/// True when TUTTI_CUDA_SYNC is set to something other than 0.
bool synchronous();

/// Makes `device` the calling thread's current one, which it remains: to set the old one again would give a process on
/// cuda:5 a context on cuda:0 as well, some 500 MB of its memory.
void use_device(int device);

/// A stream of one's own. Waits for its work in the end and becomes the next one's: streams are never destroyed, since
/// blocks of memory belong to them that may live longer.
class Stream {
 public:
  explicit Stream(int device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }
  int device() const { return device_; }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream. Does not measure time.
class Event {
 public:
  explicit Event(int device);
  ~Event();
  Event(Event&& other) noexcept : device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  void record(cudaStream_t stream);
  /// What is put into `stream` from now on waits for it.
  void block(cudaStream_t stream) const;
  /// False also where the device failed. Not while the calling thread records a graph: it would end the recording.
  bool passed() const;
  cudaEvent_t get() const { return event_; }

 private:
  int device_;
  cudaEvent_t event_ = nullptr;
};

/// The stream into which the calling thread's operations on `device` go.
cudaStream_t current_stream(int device);

/// The thread's operations on the stream's device go into `stream` for its lifetime. Scopes nest; one thread.
class StreamScope {
 public:
  StreamScope(int device, cudaStream_t stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  int device_;
  cudaStream_t previous_;
};

/// Waits for the thread's current stream; throws what went wrong on the device, a kernel's complaint included.
void wait(const char* operation, int device);

/// Notes that `operation` (a literal) is being launched, for texts about faults.
void note(const char* operation, int device);
/// "the last operations were add, mul"; empty when there were none.
std::string last_operations(int device);
/// After a launch: throws if it failed, and waits when synchronous().
void launched(cudaError_t status, const char* operation, int device, cudaStream_t stream);

/// What a kernel found wrong with the data, told to the host at its next wait. Lies in page-locked memory.
struct Complaint {
  unsigned taken;  // 0 = none; the first one is kept
  const char* operation;
  std::int64_t row;
  std::int64_t value;
  std::int64_t bound;
};
/// The device's complaint, at its address for kernels.
Complaint* complaint(int device);

int multiprocessors(int device);

}  // namespace tutti::tensor::cuda
