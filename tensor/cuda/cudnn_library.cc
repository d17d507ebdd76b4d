#include <tutti/tensor/cuda/cudnn_library.h>
#include <tutti/tensor/cuda/runtime.h>
#include <tutti/tensor/cuda/shared_library.h>

#include <map>
#include <memory>
#include <stdexcept>

namespace tutti::tensor::cuda {
namespace {

struct Loaded {
  Cudnn table{};
  std::string complaint;

  Loaded() {
    const SharedLibrary library("libcudnn.so." + std::to_string(CUDNN_MAJOR));
    complaint = library.complaint();
    if (!library.loaded()) return;
    try {
#define TUTTI_FIND(function) library.find(table.function, #function);
      TUTTI_CUDNN_FUNCTIONS(TUTTI_FIND)
#undef TUTTI_FIND
    } catch (const std::runtime_error& error) {
      complaint = error.what();
    }
  }
};

const Loaded& loaded() {
  static const Loaded library;
  return library;
}

struct Entrance {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
};

Entrance& entrance(int device) {
  static std::mutex mutex;
  static auto* const entrances = new std::map<int, Entrance>;
  const std::lock_guard lock(mutex);
  return (*entrances)[device];
}

}  // namespace

const Cudnn* cudnn() { return loaded().complaint.empty() ? &loaded().table : nullptr; }

const std::string& cudnn_complaint() { return loaded().complaint; }

CudnnSession::CudnnSession(int device) : lock_(entrance(device).mutex) {
  Entrance& own = entrance(device);
  if (own.handle == nullptr) check_cudnn(cudnn()->cudnnCreate(&own.handle), "cudnnCreate", device);
  handle_ = own.handle;
  check_cudnn(cudnn()->cudnnSetStream(handle_, current_stream(device)), "cudnnSetStream", device);
}

void check_cudnn(cudnnStatus_t status, const char* call, int device) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw std::runtime_error("conv2d on cuda:" + std::to_string(device) + ": " + call +
                           " failed: " + cudnn()->cudnnGetErrorString(status) +
                           "; TUTTI_CUDNN=0 has our own kernels compute instead");
}

}  // namespace tutti::tensor::cuda
