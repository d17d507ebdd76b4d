#include <tutti/tensor/cuda/runtime.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace tutti::tensor::cuda {
namespace {

constexpr std::size_t kRecent = 8;

// What the process knows of one device. Made at first use and never destroyed: tensors in static objects may die late.
struct DeviceState {
  std::once_flag main_made;
  std::unique_ptr<Stream> main;
  std::mutex idle_mutex;
  std::vector<cudaStream_t> idle_streams;  // for the next Stream
  std::once_flag complaint_made;
  Complaint* complaint = nullptr;            // for the host
  Complaint* complaint_on_device = nullptr;  // the same memory
  std::atomic<const char*> recent[kRecent] = {};
  std::atomic<std::size_t> launched{0};
  std::atomic<std::size_t> known_well{0};  // `launched` when the device was last waited for
  std::once_flag processors_asked;
  int multiprocessors = 1;
};

DeviceState& state(int device) {
  static std::mutex mutex;
  static auto* const states = new std::vector<std::unique_ptr<DeviceState>>;
  const std::scoped_lock lock(mutex);
  const auto index = static_cast<std::size_t>(device);
  while (states->size() <= index) states->push_back(std::make_unique<DeviceState>());
  return *(*states)[index];
}

thread_local std::vector<cudaStream_t> scoped_streams;  // by device; null = the main stream

void make_complaint(DeviceState& s, int device) {
  use_device(device);
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, sizeof(Complaint), cudaHostAllocMapped | cudaHostAllocPortable), "complaint", device);
  s.complaint = new (memory) Complaint{};
  void* on_device = nullptr;
  check(cudaHostGetDevicePointer(&on_device, memory, 0), "complaint", device);
  s.complaint_on_device = static_cast<Complaint*>(on_device);
}

void throw_complaint(DeviceState& s) {
  if (s.complaint == nullptr || s.complaint->taken == 0) return;
  const Complaint found = *s.complaint;
  *s.complaint = {};
  throw std::invalid_argument(std::string(found.operation) + ": target " + std::to_string(found.value) + " in row " +
                              std::to_string(found.row) + " is outside [0, " + std::to_string(found.bound) +
                              "), the classes of the logits");
}

bool capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone;
}

}  // namespace

bool synchronous() {
  static const bool answer = [] {
    const char* text = std::getenv("TUTTI_CUDA_SYNC");
    return text != nullptr && std::string_view(text) != "0" && *text != '\0';
  }();
  return answer;
}

void check(cudaError_t status, const char* operation, int device) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // or the next call would report it again
  std::string text = name(Device{Device::Kind::Cuda, device}) + ": " + operation + ": " + cudaGetErrorString(status) +
                     " (" + cudaGetErrorName(status) + ")";
  const std::string last = last_operations(device);
  if (!synchronous() && !last.empty()) {
    text += "; CUDA may report the fault of an earlier kernel here: " + last +
            "; run again with TUTTI_CUDA_SYNC=1 to have the one at fault named";
  }
  throw std::runtime_error(text);
}

void use_device(int device) {
  int current = device;
  check(cudaGetDevice(&current), "cudaGetDevice", device);
  if (current != device) check(cudaSetDevice(device), "cudaSetDevice", device);
}

Stream::Stream(int device) : device_(device) {
  DeviceState& s = state(device);
  {
    const std::scoped_lock lock(s.idle_mutex);
    if (!s.idle_streams.empty()) {
      stream_ = s.idle_streams.back();
      s.idle_streams.pop_back();
      return;
    }
  }
  use_device(device);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate", device);
}

Stream::~Stream() {
  (void)cudaStreamSynchronize(stream_);
  DeviceState& s = state(device_);
  const std::scoped_lock lock(s.idle_mutex);
  s.idle_streams.push_back(stream_);
}

Event::Event(int device) : device_(device) {
  use_device(device);
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate", device);
}

Event::~Event() {
  if (event_ != nullptr) (void)cudaEventDestroy(event_);
}

void Event::record(cudaStream_t stream) {
  use_device(device_);
  check(cudaEventRecord(event_, stream), "cudaEventRecord", device_);
}

void Event::block(cudaStream_t stream) const {
  use_device(device_);  // a thread's first call would make a context on cuda:0
  check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent", device_);
}

bool Event::passed() const { return cudaEventQuery(event_) == cudaSuccess; }

cudaStream_t current_stream(int device) {
  const auto index = static_cast<std::size_t>(device);
  if (index < scoped_streams.size() && scoped_streams[index] != nullptr) return scoped_streams[index];
  DeviceState& s = state(device);
  std::call_once(s.main_made, [&] { s.main = std::make_unique<Stream>(device); });
  return s.main->get();
}

StreamScope::StreamScope(int device, cudaStream_t stream) : device_(device), previous_(nullptr) {
  const auto index = static_cast<std::size_t>(device);
  if (scoped_streams.size() <= index) scoped_streams.resize(index + 1, nullptr);
  previous_ = std::exchange(scoped_streams[index], stream);
}

StreamScope::~StreamScope() { scoped_streams[static_cast<std::size_t>(device_)] = previous_; }

void wait(const char* operation, int device) {
  DeviceState& s = state(device);
  const std::size_t launched = s.launched.load(std::memory_order_relaxed);
  check(cudaStreamSynchronize(current_stream(device)), operation, device);
  s.known_well.store(launched, std::memory_order_relaxed);
  throw_complaint(s);
}

void note(const char* operation, int device) {
  DeviceState& s = state(device);
  s.recent[s.launched.fetch_add(1, std::memory_order_relaxed) % kRecent].store(operation, std::memory_order_relaxed);
}

std::string last_operations(int device) {
  const DeviceState& s = state(device);
  const std::size_t end = s.launched.load(std::memory_order_relaxed);
  const std::size_t known = s.known_well.load(std::memory_order_relaxed);
  const std::size_t count = std::min(end - std::min(end, known), kRecent);
  std::string text;
  for (std::size_t i = end - count; i < end; ++i) {
    text += (text.empty() ? "" : ", ") + std::string(s.recent[i % kRecent].load(std::memory_order_relaxed));
  }
  return text.empty() ? text : "the last ones launched were " + text;
}

void launched(cudaError_t status, const char* operation, int device, cudaStream_t stream) {
  check(status, operation, device);
  if (synchronous() && !capturing(stream)) wait(operation, device);
}

Complaint* complaint(int device) {
  DeviceState& s = state(device);
  std::call_once(s.complaint_made, [&] { make_complaint(s, device); });
  return s.complaint_on_device;
}

int multiprocessors(int device) {
  DeviceState& s = state(device);
  std::call_once(s.processors_asked, [&] {
    check(cudaDeviceGetAttribute(&s.multiprocessors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute",
          device);
  });
  return s.multiprocessors;
}

}  // namespace tutti::tensor::cuda
