#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/side_stream.h>
#include <tutti/trainer/device/device_feed.h>

#include <cstring>
#include <utility>

namespace tutti::trainer {

class DeviceFeed::Ahead {
 public:
  Ahead(Loader& loader, tensor::Device device) : loader_(loader), device_(device), stream_(device) {}

  bool next(Batch& batch) {
    fetch();
    fetched_ = false;
    batch = std::exchange(coming_, {});
    if (there_) stream_.join_current();  // what the caller computes comes after the copy
    return there_;
  }

  void fetch() {
    if (fetched_) return;
    there_ = loader_.next(host_);
    coming_ = host_;
    if (there_) {
      coming_.x = sent(host_.x);
      coming_.y = sent(host_.y);
      coming_.keys = sent(host_.keys);
    }
    fetched_ = true;  // not where the loader has thrown: it will again
  }

 private:
  /// On its way to the device. The page-locked copy is given back, and used again, only when the copy has passed.
  tensor::Tensor sent(const tensor::Tensor& from) {
    const tensor::cuda::SideStream::Scope scope(stream_);
    tensor::Tensor locked = tensor::cuda::page_locked(from.shape(), from.dtype(), device_);
    std::memcpy(locked.raw(), from.raw(), from.nbytes());
    tensor::Tensor result = tensor::Tensor::empty(from.shape(), from.dtype(), device_);
    tensor::cuda::transfer_async(result, locked);
    return result;
  }

  Loader& loader_;
  tensor::Device device_;
  tensor::cuda::SideStream stream_;
  Batch host_;
  Batch coming_;
  bool there_ = false;
  bool fetched_ = false;  // coming_ is the next batch
};

tensor::Device device_of(const nn::Module& model) {
  const auto parameters = model.named_parameters();
  return parameters.empty() ? tensor::Device() : parameters.front().second.data().device();
}

DeviceFeed::DeviceFeed(Loader& loader, tensor::Device device)
    : loader_(loader),
      ahead_(device.kind == tensor::Device::Kind::Cpu ? nullptr : std::make_unique<Ahead>(loader, device)) {}

DeviceFeed::~DeviceFeed() = default;

bool DeviceFeed::next(Batch& batch) { return ahead_ == nullptr ? loader_.next(batch) : ahead_->next(batch); }

void DeviceFeed::prefetch() {
  if (ahead_ != nullptr) ahead_->fetch();
}

}  // namespace tutti::trainer
