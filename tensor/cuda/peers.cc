#include <cuda_runtime_api.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/peers.h>
#include <tutti/tensor/cuda/runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tutti::tensor::cuda {
namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(MemoryTicket::handle));

int device_of(const Card& card) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return -1;
  for (int index = 0; index < count; ++index) {
    if (card_of({Device::Kind::Cuda, index}) == card) return index;
  }
  return -1;
}

std::shared_ptr<std::byte> map_from_process(const MemoryTicket& ticket, Device device) {
  const DeviceGuard guard(device.index);
  cudaIpcMemHandle_t handle;
  std::memcpy(&handle, ticket.handle.data(), sizeof handle);
  void* address = nullptr;
  check(cudaIpcOpenMemHandle(&address, handle, cudaIpcMemLazyEnablePeerAccess), "mapping another rank's memory",
        device.index);
  return {static_cast<std::byte*>(address), [index = device.index](std::byte* mapped) {
            try {
              const DeviceGuard there(index);
              (void)cudaIpcCloseMemHandle(mapped);
            } catch (...) {  // the device is lost, and the mapping with it
            }
          }};
}

// Of two cards of one process: kernels of one see the other's memory once asked for.
void enable_access(Device device, const Card& card) {
  const int other = device_of(card);
  if (other < 0 || other == device.index) return;
  const DeviceGuard guard(device.index);
  const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();
    return;
  }
  check(status, "peer access", device.index);
}

}  // namespace

Card card_of(Device device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device.index), "asking for the card", device.index);
  Card card;
  static_assert(sizeof properties.uuid.bytes == sizeof card.uuid);
  std::memcpy(card.uuid.data(), properties.uuid.bytes, card.uuid.size());
  return card;
}

bool reaches(Device device, const Card& card) {
  if (card_of(device) == card) return true;
  const int other = device_of(card);
  int can = 0;
  return other >= 0 && cudaDeviceCanAccessPeer(&can, device.index, other) == cudaSuccess && can != 0;
}

MemoryTicket ticket_for(const Tensor& memory) {
  const Device device = memory.device();
  const DeviceGuard guard(device.index);
  MemoryTicket ticket;
  ticket.card = card_of(device);
  ticket.process = ::getpid();
  ticket.address = reinterpret_cast<std::uintptr_t>(memory.raw());
  ticket.nbytes = memory.nbytes();
  cudaIpcMemHandle_t handle;
  check(cudaIpcGetMemHandle(&handle, const_cast<void*>(memory.raw())), "sharing memory with other ranks", device.index);
  std::memcpy(ticket.handle.data(), &handle, sizeof handle);
  return ticket;
}

std::shared_ptr<std::byte> open_ticket(const MemoryTicket& ticket, Device device) {
  if (ticket.process != ::getpid()) return map_from_process(ticket, device);
  enable_access(device, ticket.card);
  return {reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(ticket.address)), [](std::byte*) {}};
}

void copy_reachable(void* to, const void* from, std::size_t nbytes, Device device) {
  if (nbytes == 0) return;
  const DeviceGuard guard(device.index);
  const cudaStream_t stream = current_stream(device.index);
  note("copy from another rank", device.index);
  launched(cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDeviceToDevice, stream), "copy from another rank", device.index,
           stream);
}

std::shared_ptr<void> page_lock(void* memory, std::size_t nbytes, Device device) {
  require(device);
  const DeviceGuard guard(device.index);
  check(cudaHostRegister(memory, nbytes, cudaHostRegisterPortable), "page-locking a buffer", device.index);
  return {memory, [](void* locked) { (void)cudaHostUnregister(locked); }};
}

struct SideStream::State {
  explicit State(int index) : stream(index), done(index) {}
  Stream stream;
  Event done;  // re-recorded: a wait takes the state of the moment it is put into a stream
};

SideStream::SideStream(Device device) {
  require(device);
  state_ = std::make_unique<State>(device.index);
}
SideStream::~SideStream() = default;

std::shared_ptr<const Event> SideStream::current_point() const {
  const int device = state_->stream.device();
  auto point = std::make_shared<Event>(device);
  point->record(current_stream(device));
  return point;
}

void SideStream::follow(const Event& point) { point.block(state_->stream.get()); }

void SideStream::join_current() {
  state_->done.record(state_->stream.get());
  state_->done.block(current_stream(state_->stream.device()));
}

struct SideStream::Scope::Inside {
  explicit Inside(Stream& stream) : scope(stream.device(), stream.get()) {}
  StreamScope scope;
};

SideStream::Scope::Scope(SideStream& stream) : inside_(std::make_unique<Inside>(stream.state_->stream)) {}
SideStream::Scope::~Scope() = default;

}  // namespace tutti::tensor::cuda
