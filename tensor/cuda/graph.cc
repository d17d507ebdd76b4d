#include <cuda_runtime_api.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/graph.h>
#include <tutti/tensor/cuda/memory.h>
#include <tutti/tensor/cuda/runtime.h>

#include <cstdlib>
#include <string_view>

namespace tutti::tensor::cuda {

struct Graph::State {
  explicit State(int index) : device(index), stream(index) { allocator(index).hold(stream.get()); }
  ~State() {
    if (launches != nullptr) (void)cudaGraphExecDestroy(launches);
    if (recorded != nullptr) (void)cudaGraphDestroy(recorded);
    allocator(device).release(stream.get());
  }

  void record(const std::function<void()>& work) {
    use_device(device);
    const StreamScope scope(device, stream.get());
    check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "recording a graph", device);
    try {
      work();
    } catch (...) {
      (void)cudaStreamEndCapture(stream.get(), &recorded);
      (void)cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(stream.get(), &recorded), "recording a graph", device);
    check(cudaGraphInstantiate(&launches, recorded, 0), "making a graph", device);
  }

  int device;
  Stream stream;  // its blocks are the graph's
  cudaGraph_t recorded = nullptr;
  cudaGraphExec_t launches = nullptr;
};

Graph::Graph(Device device, const std::function<void()>& work) {
  require(device);
  state_ = std::make_unique<State>(device.index);
  state_->record(work);
}

Graph::~Graph() {
  try {
    synchronize({Device::Kind::Cuda, state_->device});  // its memory may still be worked on
  } catch (...) {                                       // the device is broken, as the next operation will say
  }
}

void Graph::launch() {
  use_device(state_->device);
  const cudaStream_t stream = current_stream(state_->device);
  note("a recorded step", state_->device);
  launched(cudaGraphLaunch(state_->launches, stream), "a recorded step", state_->device, stream);
}

bool Graph::allowed() {
  const char* const text = std::getenv("TUTTI_CUDA_GRAPHS");
  return !synchronous() && (text == nullptr || std::string_view(text) != "0");
}

}  // namespace tutti::tensor::cuda
