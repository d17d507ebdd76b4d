// The runtime's functions on devices, streams, events and graphs.
#include <cstdio>
#include <cstring>
#include <utility>

#include "world.h"

using cuda_emulator::current_device;
using cuda_emulator::Queue;
using cuda_emulator::result;
using cuda_emulator::spoils_capture;
using cuda_emulator::Work;
using cuda_emulator::world;
using Guard = std::scoped_lock<std::recursive_mutex>;

namespace {

struct Text {
  cudaError_t error;
  const char* name;
  const char* text;
};

constexpr Text kTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
};

const Text& text_of(cudaError_t error) {
  for (const Text& text : kTexts) {
    if (text.error == error) return text;
  }
  static constexpr Text kUnknown{cudaSuccess, "cudaErrorUnknown", "unknown error"};
  return kUnknown;
}

thread_local cudaGraph_t own_capture = nullptr;
thread_local cudaStreamCaptureMode interaction = cudaStreamCaptureModeGlobal;

bool exists(int device) { return device >= 0 && device < static_cast<int>(world().devices.size()); }

}  // namespace

bool cuda_emulator::spoils_capture() {
  if (own_capture == nullptr || interaction == cudaStreamCaptureModeRelaxed) return false;
  own_capture->invalid = true;
  return true;
}

const char* cudaGetErrorString(cudaError_t error) { return text_of(error).text; }
const char* cudaGetErrorName(cudaError_t error) { return text_of(error).name; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(world().devices.size());
  return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!exists(device)) return result(cudaErrorInvalidDevice);
  current_device() = device;
  const std::scoped_lock guard(world().lock);
  world().devices[static_cast<std::size_t>(device)]->chosen = true;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!exists(device)) return result(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "emulated device %d", device);
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error != cudaSuccess) return error;
  *value = properties.multiProcessorCount;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const Guard guard(world().lock);
  world().run_all(current_device());
  return result(world().state_of(current_device()));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Guard guard(world().lock);
  *stream = new CUstream_st{std::make_shared<Queue>()};
  (*stream)->queue->device = current_device();
  world().devices[static_cast<std::size_t>(current_device())]->queues.insert((*stream)->queue.get());
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Guard guard(world().lock);
  Queue& queue = *stream->queue;
  world().run_until(queue, queue.enqueued);
  world().devices[static_cast<std::size_t>(queue.device)]->queues.erase(&queue);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Guard guard(world().lock);
  Queue& queue = world().queue_of(stream);
  if (queue.capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  world().run_until(queue, queue.enqueued);
  return result(world().state_of(queue.device));
}

// A program that asks again and again sees progress: one piece of work each time.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Guard guard(world().lock);
  Queue& queue = world().queue_of(stream);
  world().run_until(queue, queue.executed + 1);
  if (world().state_of(queue.device) != cudaSuccess) return result(world().state_of(queue.device));
  return queue.waiting.empty() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Guard guard(world().lock);
  Queue& queue = world().queue_of(stream);
  if (event->capture != nullptr) {
    if (queue.capture == nullptr) {
      queue.capture = event->capture;
      event->capture->queues.push_back(stream->queue);
    }
    return cudaSuccess;  // the order in which work was recorded is one that the dependencies allow
  }
  if (event->queue == nullptr || event->queue.get() == &queue) return cudaSuccess;
  world().enqueue(queue, [other = event->queue, ticket = event->ticket] { world().run_until(*other, ticket); });
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* data) {
  const Guard guard(world().lock);
  world().enqueue(world().queue_of(stream), [=] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Guard guard(world().lock);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Guard guard(world().lock);
  Queue& queue = world().queue_of(stream);
  event->capture = queue.capture;
  world().enqueue(queue, [] {});
  if (queue.capture != nullptr) return cudaSuccess;
  event->queue = stream == nullptr ? world().default_streams[queue.device]->queue : stream->queue;
  event->ticket = queue.enqueued;
  return result(world().state_of(queue.device));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Guard guard(world().lock);
  if (spoils_capture()) return result(cudaErrorStreamCaptureUnsupported);
  if (event->queue == nullptr) return cudaSuccess;
  Queue& queue = *event->queue;
  if (queue.executed < event->ticket) world().run_until(queue, queue.executed + 1);
  if (world().state_of(queue.device) != cudaSuccess) return result(world().state_of(queue.device));
  return queue.executed >= event->ticket ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, interaction);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const Guard guard(world().lock);
  if (stream == nullptr || stream->queue->capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  stream->queue->capture = new CUgraph_st;
  stream->queue->capture->queues.push_back(stream->queue);
  stream->queue->began_capture = true;
  own_capture = stream->queue->capture;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Guard guard(world().lock);
  if (stream == nullptr || !stream->queue->began_capture) return result(cudaErrorInvalidValue);
  *graph = stream->queue->capture;
  stream->queue->began_capture = false;
  own_capture = nullptr;
  for (const auto& queue : (*graph)->queues) queue->capture = nullptr;
  if (!(*graph)->invalid) return cudaSuccess;
  delete std::exchange(*graph, nullptr);
  return result(cudaErrorStreamCaptureInvalidated);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Guard guard(world().lock);
  *status = world().queue_of(stream).capture == nullptr ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const Guard guard(world().lock);
  Queue& queue = world().queue_of(stream);
  world().enqueue(queue, [work = executable->work] {
    for (const Work& piece : work) piece();
  });
  return result(world().state_of(queue.device));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
