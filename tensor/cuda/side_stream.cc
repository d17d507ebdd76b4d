#include <cuda_runtime_api.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/runtime.h>
#include <tutti/tensor/cuda/side_stream.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tutti::tensor::cuda {
Card card_of(Device device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device.index), "asking for the card", device.index);
  Card card;
  static_assert(sizeof properties.uuid.bytes == sizeof card.uuid);
  std::memcpy(card.uuid.data(), properties.uuid.bytes, card.uuid.size());
  return card;
}

std::shared_ptr<void> page_lock(void* memory, std::size_t nbytes, Device device) {
  require(device);
  use_device(device.index);
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
