// Collectives through the host: down, the group's own collective, up. The group compares the calls, and speaks TCP,
// shared memory, or both. The two halves of one page-locked buffer, which the ranks of a host also share, take turns:
// while the group works on one chunk, the next one comes down.
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/side_stream.h>
#include <tutti/trainer/device/device_ways.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <array>
#include <functional>

namespace tutti::trainer {
namespace {

namespace cuda = tensor::cuda;

class StagedCollectives : public DeviceCollectives {
 public:
  StagedCollectives(comm::ProcessGroup& group, tensor::Device device, std::size_t chunk_bytes)
      : group_(group),
        device_(device),
        chunk_bytes_((std::max<std::size_t>(chunk_bytes, 4096) + 4095) / 4096 * 4096),
        buffer_(group.allocate(2 * chunk_bytes_)),
        lock_(cuda::page_lock(buffer_.data(), buffer_.nbytes, device)) {}

  std::string way() const override { return "staged"; }
  tensor::Device device() const override { return device_; }

  tensor::Tensor allocate(const tensor::Shape& shape, tensor::DType dtype) override {
    return tensor::Tensor::empty(shape, dtype, device_);
  }

  void broadcast(tensor::Tensor& data, int root) override {
    check_device_tensor(data, device_, "broadcast");
    const bool sends = group_.rank() == root;
    pipeline(data, data, sends, !sends, [&](comm::Buffer chunk) { return group_.broadcast_async(chunk, root); });
  }

  void all_reduce(tensor::Tensor& data, comm::ReduceOp op) override {
    check_device_tensor(data, device_, "all_reduce");
    pipeline(data, data, true, true, [&](comm::Buffer chunk) { return group_.all_reduce_async(chunk, op); });
  }

  void reduce(const tensor::Tensor& input, tensor::Tensor& output, comm::ReduceOp op, int root) override {
    check_device_tensor(input, device_, "reduce");
    const bool is_root = group_.rank() == root;
    if (is_root) check_device_tensor(output, device_, "reduce");
    if (is_root) check_blocks(output, input, 1, "reduce");
    tensor::Tensor target = is_root ? output : tensor::Tensor();
    pipeline(input, target, true, is_root, [&](comm::Buffer chunk) {
      return group_.reduce_async(chunk, is_root ? chunk : empty_like(chunk), op, root);
    });
  }

  // The verbs that put blocks side by side go in one piece: their chunks would not be contiguous on the host.
  void gather(const tensor::Tensor& input, tensor::Tensor& output, int root) override {
    check_device_tensor(input, device_, "gather");
    const bool takes = group_.rank() == root;
    if (takes) check_parts(output, input, "gather");
    const tensor::Tensor mine = down(input);
    tensor::Tensor all = takes ? host_like(output) : tensor::Tensor();
    group_.gather(const_buffer(mine), takes ? as_buffer(all) : nothing(input), root);
    if (takes) output.copy_from(all);
  }

  void all_gather(const tensor::Tensor& input, tensor::Tensor& output) override {
    check_device_tensor(input, device_, "all_gather");
    check_parts(output, input, "all_gather");
    const tensor::Tensor mine = down(input);
    tensor::Tensor all = host_like(output);
    group_.all_gather(const_buffer(mine), as_buffer(all));
    output.copy_from(all);
  }

  void scatter(const tensor::Tensor& input, tensor::Tensor& output, int root) override {
    check_device_tensor(output, device_, "scatter");
    const bool gives = group_.rank() == root;
    if (gives) check_parts(input, output, "scatter");
    tensor::Tensor whole = gives ? down(input) : tensor::Tensor();
    tensor::Tensor mine = host_like(output);
    group_.scatter(gives ? as_buffer(whole) : nothing(output), as_buffer(mine), root);
    output.copy_from(mine);
  }

  void reduce_scatter(const tensor::Tensor& input, tensor::Tensor& output, comm::ReduceOp op) override {
    check_device_tensor(output, device_, "reduce_scatter");
    check_parts(input, output, "reduce_scatter");
    const tensor::Tensor whole = down(input);
    tensor::Tensor mine = host_like(output);
    group_.reduce_scatter(const_buffer(whole), as_buffer(mine), op);
    output.copy_from(mine);
  }

  void all_to_all(const tensor::Tensor& input, tensor::Tensor& output) override {
    check_device_tensor(input, device_, "all_to_all");
    check_device_tensor(output, device_, "all_to_all");
    check_blocks(input, output, 1, "all_to_all");
    const tensor::Tensor whole = down(input);
    tensor::Tensor mine = host_like(output);
    group_.all_to_all(const_buffer(whole), as_buffer(mine));
    output.copy_from(mine);
  }

 private:
  static comm::ConstBuffer const_buffer(const tensor::Tensor& on_host) {
    return as_buffer(const_cast<tensor::Tensor&>(on_host));  // only read
  }
  static comm::Buffer nothing(const tensor::Tensor& like) { return {nullptr, 0, to_comm(like.dtype())}; }
  static comm::Buffer empty_like(const comm::Buffer& chunk) { return {nullptr, 0, chunk.dtype}; }

  void check_parts(const tensor::Tensor& whole, const tensor::Tensor& block, const char* what) const {
    check_device_tensor(whole, device_, what);
    check_blocks(whole, block, group_.world_size(), what);
  }

  tensor::Tensor host_like(const tensor::Tensor& data) const {
    return cuda::page_locked(data.shape(), data.dtype(), device_);
  }
  tensor::Tensor down(const tensor::Tensor& data) const {
    tensor::Tensor host = host_like(data);
    host.copy_from(data);
    return host;
  }

  /// Chunk by chunk: `input` comes down if `sends`, `start` runs the group's operation on it in place, and the result
  /// goes up into `output` if `takes`.
  void pipeline(const tensor::Tensor& input, tensor::Tensor& output, bool sends, bool takes,
                const std::function<comm::Work(comm::Buffer)>& start) {
    const std::size_t element = tensor::size_of(input.dtype());
    const std::size_t total = input.nbytes();
    std::array<comm::Work, 2> works;
    const auto size_at = [&](std::size_t at) { return std::min(chunk_bytes_, total - at); };
    const auto half = [&](std::size_t at) { return buffer_.data() + (at / chunk_bytes_ % 2) * chunk_bytes_; };
    const auto complete = [&](std::size_t at) {
      works[at / chunk_bytes_ % 2].wait();
      if (!takes) return;
      auto* const to = static_cast<std::byte*>(output.raw()) + at;
      cuda::transfer_bytes(to, device_, half(at), {}, size_at(at));
    };
    try {
      for (std::size_t at = 0; at < total || at == 0; at += chunk_bytes_) {
        if (sends && total > 0) {
          cuda::transfer_bytes(half(at), {}, static_cast<const std::byte*>(input.raw()) + at, device_, size_at(at));
        }
        works[at / chunk_bytes_ % 2] = start({half(at), size_at(at) / element, to_comm(input.dtype())});
        if (at >= chunk_bytes_) complete(at - chunk_bytes_);
      }
      complete(total == 0 ? 0 : (total - 1) / chunk_bytes_ * chunk_bytes_);
    } catch (...) {
      for (comm::Work& work : works) settle(work);  // nothing may touch the buffer any more
      throw;
    }
  }

  void settle(comm::Work& work) noexcept {
    try {
      (void)work.wait_for(group_.timeout());
    } catch (...) {  // the first error is on its way already
    }
  }

  comm::ProcessGroup& group_;
  tensor::Device device_;
  std::size_t chunk_bytes_;
  comm::RegisteredBuffer buffer_;
  std::shared_ptr<void> lock_;
};

}  // namespace

std::unique_ptr<DeviceCollectives> make_staged_collectives(comm::ProcessGroup& group, tensor::Device device,
                                                           std::size_t chunk_bytes) {
  return std::make_unique<StagedCollectives>(group, device, chunk_bytes);
}

}  // namespace tutti::trainer
