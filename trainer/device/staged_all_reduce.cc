// All_reduce through the host: down, the group's own all_reduce, up. The group compares the calls, and speaks TCP,
// shared memory, or both. The two halves of one page-locked buffer, which the ranks of a host also share, take turns:
// while the group works on one chunk, the next one comes down.
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/side_stream.h>
#include <tutti/trainer/data_parallel/pending_works.h>
#include <tutti/trainer/device/device_ways.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>

namespace tutti::trainer {
namespace {

namespace cuda = tensor::cuda;

class StagedAllReduce : public DeviceAllReduce {
 public:
  StagedAllReduce(comm::ProcessGroup& group, tensor::Device device, std::size_t chunk_bytes)
      : group_(group),
        device_(device),
        chunk_bytes_((std::max<std::size_t>(chunk_bytes, 4096) + 4095) / 4096 * 4096),
        buffer_(group.allocate(2 * chunk_bytes_)),
        lock_(cuda::page_lock(buffer_.data(), buffer_.nbytes, device)) {}

  std::string way() const override { return "staged"; }

  void sum(tensor::Tensor& data) override {
    check_device_tensor(data, device_);
    auto* const bytes = static_cast<std::byte*>(data.raw());
    const std::size_t element = tensor::size_of(data.dtype());
    const std::size_t total = data.nbytes();
    PendingWorks works(group_, 2);
    const auto size_at = [&](std::size_t at) { return std::min(chunk_bytes_, total - at); };
    const auto half = [&](std::size_t at) { return buffer_.data() + (at / chunk_bytes_ % 2) * chunk_bytes_; };
    const auto complete = [&](std::size_t at) {
      works.wait(at / chunk_bytes_ % 2);
      cuda::transfer_bytes(bytes + at, device_, half(at), {}, size_at(at));
    };
    try {
      for (std::size_t at = 0; at < total || at == 0; at += chunk_bytes_) {
        if (total > 0) cuda::transfer_bytes(half(at), {}, bytes + at, device_, size_at(at));
        works.add(at / chunk_bytes_ % 2,
                  group_.all_reduce_async(comm::Buffer{half(at), size_at(at) / element, to_comm(data.dtype())}));
        if (at >= chunk_bytes_) complete(at - chunk_bytes_);
      }
      complete(total == 0 ? 0 : (total - 1) / chunk_bytes_ * chunk_bytes_);
    } catch (...) {
      works.abandon();  // nothing may touch the buffer any more
      throw;
    }
  }

 private:
  comm::ProcessGroup& group_;
  tensor::Device device_;
  std::size_t chunk_bytes_;
  comm::RegisteredBuffer buffer_;
  std::shared_ptr<void> lock_;
};

}  // namespace

std::unique_ptr<DeviceAllReduce> make_staged_all_reduce(comm::ProcessGroup& group, tensor::Device device,
                                                        std::size_t chunk_bytes) {
  return std::make_unique<StagedAllReduce>(group, device, chunk_bytes);
}

}  // namespace tutti::trainer
