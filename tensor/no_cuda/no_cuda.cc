// The twin of cuda/ for a build without CUDA.
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/graph.h>
#include <tutti/tensor/cuda/side_stream.h>
#include <tutti/tensor/products.h>

#include <stdexcept>

namespace tutti::tensor {

bool cuda_available() { return false; }

int cuda_device_count() { return 0; }

std::string cuda_status() {
  return "built without CUDA (TUTTI_CUDA=OFF, or AUTO and no CUDA Toolkit was found at configure time)";
}

std::string describe_products() { return "nothing on a GPU: " + cuda_status(); }

namespace cuda {
namespace {

[[noreturn]] void refuse(Device device) {
  throw std::runtime_error("a tensor was asked for on " + name(device) +
                           ", but this build computes on the CPU only: " + cuda_status() + "; use device cpu");
}

// What only a tensor on a GPU leads to: there is none.
[[noreturn]] void refuse_any() { refuse({Device::Kind::Cuda, 0}); }

}  // namespace

void require(Device device) { refuse(device); }

const KernelTable& kernel_table() { refuse_any(); }

void* allocate(std::size_t, Device device) { refuse(device); }

void deallocate(void*, std::size_t, Device) noexcept {}

void transfer(Tensor&, const Tensor&) { refuse_any(); }

void transfer_async(Tensor&, const Tensor&) { refuse_any(); }

void transfer_bytes(void*, Device, const void*, Device, std::size_t) { refuse_any(); }

Tensor page_locked(const Shape&, DType, Device device) { refuse(device); }

void synchronize(Device device) { refuse(device); }

Card card_of(Device device) { refuse(device); }

std::shared_ptr<void> page_lock(void*, std::size_t, Device device) { refuse(device); }

struct SideStream::State {};
struct SideStream::Scope::Inside {};
SideStream::SideStream(Device device) { refuse(device); }
SideStream::~SideStream() = default;
std::shared_ptr<const Event> SideStream::current_point() const { refuse_any(); }
void SideStream::follow(const Event&) { refuse_any(); }
void SideStream::join_current() { refuse_any(); }
SideStream::Scope::Scope(SideStream&) { refuse_any(); }
SideStream::Scope::~Scope() = default;

struct Graph::State {};
Graph::Graph(Device device, const std::function<void()>&) { refuse(device); }
Graph::~Graph() = default;
void Graph::launch() { refuse_any(); }
bool Graph::allowed() { return false; }

MemoryUse memory_use(Device device) { refuse(device); }

void trim(Device device) { refuse(device); }

}  // namespace cuda
}  // namespace tutti::tensor
