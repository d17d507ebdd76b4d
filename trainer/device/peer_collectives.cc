// Collectives among ranks that can all use each other's memory.
//
// Windows: memory of each rank that all ranks have mapped. One, the scratch, is there from the beginning; allocate()
// makes further ones. Every operation is made of rounds: each rank writes to its own window, all meet, each reads from
// (all_reduce: also writes to) the others', all meet. To meet is: wait for one's own stream, then a collective of the
// group, which has a deadline and names who is missing.
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/peers.h>
#include <tutti/trainer/device/device_call.h>
#include <tutti/trainer/device/device_ways.h>

#include <algorithm>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tutti::trainer {
namespace {

namespace cuda = tensor::cuda;

struct Window {
  tensor::Tensor memory;  // this rank's
  std::vector<std::shared_ptr<std::byte>> ranks;
};

/// Smaller blocks share their 2 MiB with others, and all of those are mapped with them:
/// https://docs.nvidia.com/cuda/cuda-c-programming-guide/#interprocess-communication
constexpr std::int64_t kSharedBytes = std::int64_t{2} << 20;

cuda::Combine combine_of(comm::ReduceOp op) {
  switch (op) {
    case comm::ReduceOp::Sum:
    case comm::ReduceOp::Avg:
      return cuda::Combine::Sum;
    case comm::ReduceOp::Prod:
      return cuda::Combine::Prod;
    case comm::ReduceOp::Min:
      return cuda::Combine::Min;
    case comm::ReduceOp::Max:
      return cuda::Combine::Max;
    default:  // agree() has refused it
      throw std::logic_error("no kernel for " + std::string(comm::name(op)));
  }
}

std::byte* bytes_of(const tensor::Tensor& tensor) {
  return static_cast<std::byte*>(const_cast<void*>(tensor.raw()));  // device addresses carry no constness on
}

class PeerCollectives : public DeviceCollectives {
 public:
  PeerCollectives(comm::ProcessGroup& group, tensor::Device device, std::size_t chunk_bytes)
      : group_(group),
        device_(device),
        ranks_(static_cast<std::size_t>(group.world_size())),
        me_(static_cast<std::size_t>(group.rank())),
        slot_bytes_((std::max<std::size_t>(chunk_bytes, 4096) + 255) / 256 * 256) {
    const auto scratch = std::max(kSharedBytes, static_cast<std::int64_t>(slot_bytes_ * ranks_));
    windows_.push_back(make_window(tensor::Tensor::empty({scratch}, tensor::DType::UInt8, device_)));
  }

  std::string way() const override { return "peer"; }
  tensor::Device device() const override { return device_; }

  tensor::Tensor allocate(const tensor::Shape& shape, tensor::DType dtype) override {
    const std::int64_t least = kSharedBytes / static_cast<std::int64_t>(tensor::size_of(dtype));
    const tensor::Tensor block = tensor::Tensor::empty({std::max(shape.numel(), least)}, dtype, device_);
    windows_.push_back(make_window(block.narrow(0, 0, shape.numel()).reshape(shape)));
    return windows_.back().memory;
  }

  void broadcast(tensor::Tensor& data, int root) override {
    check_device_tensor(data, device_, "broadcast");
    begin({.operation = comm::OpKind::Broadcast, .dtype = data.dtype(), .root = root, .count = data.numel()}, data);
    in_chunks(data.nbytes(), [&](std::size_t at, std::size_t size) {
      if (is(root)) publish(0, bytes_of(data) + at, size);
      meet();
      if (!is(root)) pull(static_cast<std::size_t>(root), 0, bytes_of(data) + at, size);
      meet();
    });
  }

  void all_reduce(tensor::Tensor& data, comm::ReduceOp op) override {
    check_device_tensor(data, device_, "all_reduce");
    const auto all = begin(
        {.operation = comm::OpKind::AllReduce, .reduce_op = op, .dtype = data.dtype(), .count = data.numel()}, data);
    if (std::all_of(all.begin(), all.end(), [](const DeviceCall& one) { return one.window != 0; })) {
      return all_reduce_in_place(all, data, op);
    }
    in_chunks(data.nbytes(), [&](std::size_t at, std::size_t size) {
      combine_in_scratch(bytes_of(data) + at, size, data.dtype(), op);
      cuda::copy_reachable(bytes_of(data) + at, own(0), size, device_);
    });
    cuda::synchronize(device_);
  }

  void reduce(const tensor::Tensor& input, tensor::Tensor& output, comm::ReduceOp op, int root) override {
    check_device_tensor(input, device_, "reduce");
    if (is(root)) {
      check_device_tensor(output, device_, "reduce");
      check_blocks(output, input, 1, "reduce");
    }
    begin({.operation = comm::OpKind::Reduce,
           .reduce_op = op,
           .dtype = input.dtype(),
           .root = root,
           .count = input.numel()},
          input);
    in_chunks(input.nbytes(), [&](std::size_t at, std::size_t size) {
      combine_in_scratch(bytes_of(input) + at, size, input.dtype(), op);
      if (is(root)) cuda::copy_reachable(bytes_of(output) + at, own(0), size, device_);
    });
    cuda::synchronize(device_);
  }

  void gather(const tensor::Tensor& input, tensor::Tensor& output, int root) override {
    collect(input, output, root, comm::OpKind::Gather);
  }
  void all_gather(const tensor::Tensor& input, tensor::Tensor& output) override {
    collect(input, output, -1, comm::OpKind::AllGather);
  }

  void scatter(const tensor::Tensor& input, tensor::Tensor& output, int root) override {
    check_device_tensor(output, device_, "scatter");
    if (is(root)) check_parts(input, output, "scatter");
    begin({.operation = comm::OpKind::Scatter, .dtype = output.dtype(), .root = root, .count = output.numel()}, output);
    in_chunks(output.nbytes(), [&](std::size_t at, std::size_t size) {
      if (is(root)) publish_blocks(input, output.nbytes(), at, size);
      meet();
      pull(static_cast<std::size_t>(root), me_, bytes_of(output) + at, size);
      meet();
    });
  }

  void reduce_scatter(const tensor::Tensor& input, tensor::Tensor& output, comm::ReduceOp op) override {
    check_device_tensor(output, device_, "reduce_scatter");
    check_parts(input, output, "reduce_scatter");
    begin({.operation = comm::OpKind::ReduceScatter, .reduce_op = op, .dtype = output.dtype(), .count = output.numel()},
          output);
    in_chunks(output.nbytes(), [&](std::size_t at, std::size_t size) {
      publish_blocks(input, output.nbytes(), at, size);
      meet();
      combine(0, me_, 0, count_of(size, output.dtype()), output.dtype(), op);
      cuda::copy_reachable(bytes_of(output) + at, own(me_), size, device_);
      meet();
    });
  }

  void all_to_all(const tensor::Tensor& input, tensor::Tensor& output) override {
    check_device_tensor(input, device_, "all_to_all");
    check_device_tensor(output, device_, "all_to_all");
    check_blocks(input, output, 1, "all_to_all");
    check_divisible(input, group_.world_size(), "all_to_all");
    begin({.operation = comm::OpKind::AllToAll, .dtype = input.dtype(), .count = input.numel()}, input);
    const std::size_t block = input.nbytes() / ranks_;
    in_chunks(block, [&](std::size_t at, std::size_t size) {
      publish_blocks(input, block, at, size);
      meet();
      for (std::size_t r = 0; r < ranks_; ++r) pull(r, me_, bytes_of(output) + r * block + at, size);
      meet();
    });
  }

 private:
  bool is(int rank) const { return group_.rank() == rank; }
  std::byte* own(std::size_t slot) const { return windows_[0].ranks[me_].get() + slot * slot_bytes_; }
  static std::int64_t count_of(std::size_t bytes, tensor::DType dtype) {
    return static_cast<std::int64_t>(bytes / tensor::size_of(dtype));
  }

  void check_parts(const tensor::Tensor& whole, const tensor::Tensor& block, const char* what) const {
    check_device_tensor(whole, device_, what);
    check_blocks(whole, block, group_.world_size(), what);
  }

  Window make_window(tensor::Tensor memory) {
    const cuda::MemoryTicket ticket = cuda::ticket_for(memory);
    std::vector<cuda::MemoryTicket> all(ranks_);
    group_.all_gather(comm::ConstBuffer(&ticket, sizeof ticket, comm::DType::UInt8),
                      comm::Buffer{all.data(), sizeof ticket * ranks_, comm::DType::UInt8});
    Window window{.memory = std::move(memory), .ranks = {}};
    for (const cuda::MemoryTicket& one : all) window.ranks.push_back(cuda::open_ticket(one, device_));
    return window;
  }

  /// Which window holds `data`; 0 if none but the scratch.
  std::size_t window_of(const tensor::Tensor& data) const {
    for (std::size_t w = 1; w < windows_.size(); ++w) {
      const std::byte* const begin = bytes_of(windows_[w].memory);
      if (bytes_of(data) >= begin && bytes_of(data) + data.nbytes() <= begin + windows_[w].memory.nbytes()) return w;
    }
    return 0;
  }

  /// All ranks have come with the same call, or all throw; what they have written before is there for the others.
  std::vector<DeviceCall> begin(DeviceCall call, const tensor::Tensor& data) {
    call.sequence = ++sequence_;
    call.window = window_of(data);
    if (call.window != 0) {
      call.offset = static_cast<std::uint64_t>(bytes_of(data) - bytes_of(windows_[call.window].memory));
    }
    cuda::synchronize(device_);
    return agree(group_, device_, call);
  }

  void meet() {
    cuda::synchronize(device_);
    group_.barrier();
  }

  void in_chunks(std::size_t nbytes, const std::function<void(std::size_t at, std::size_t size)>& round) const {
    for (std::size_t at = 0; at < nbytes; at += slot_bytes_) round(at, std::min(slot_bytes_, nbytes - at));
  }

  void publish(std::size_t slot, const std::byte* from, std::size_t nbytes) {
    cuda::copy_reachable(own(slot), from, nbytes, device_);
  }

  /// Bytes at .. at + size of every rank's block, each into the slot of that rank.
  void publish_blocks(const tensor::Tensor& whole, std::size_t block, std::size_t at, std::size_t size) {
    for (std::size_t r = 0; r < ranks_; ++r) publish(r, bytes_of(whole) + r * block + at, size);
  }

  void pull(std::size_t rank, std::size_t slot, std::byte* to, std::size_t nbytes) {
    cuda::copy_reachable(to, windows_[0].ranks[rank].get() + slot * slot_bytes_, nbytes, device_);
  }

  /// Elements [first, first + count) of everybody's memory at `slot` of the window.
  void combine(std::size_t window, std::size_t slot, std::int64_t first, std::int64_t count, tensor::DType dtype,
               comm::ReduceOp op) {
    std::vector<std::byte*> peers;
    for (const auto& rank : windows_[window].ranks) peers.push_back(rank.get() + slot * slot_bytes_);
    combine_at(peers, first, count, dtype, op);
  }

  void combine_at(std::span<std::byte* const> peers, std::int64_t first, std::int64_t count, tensor::DType dtype,
                  comm::ReduceOp op) {
    const double factor = op == comm::ReduceOp::Avg ? 1.0 / static_cast<double>(ranks_) : 1.0;
    cuda::combine_peers(peers, first, count, dtype, combine_of(op), factor, device_);
  }

  /// This rank's part of `count` elements, in whole packs of 16 bytes.
  std::pair<std::int64_t, std::int64_t> own_part(std::int64_t count) const {
    constexpr std::int64_t kUnit = 16;
    const std::int64_t units = (count + kUnit - 1) / kUnit;
    const auto part = [&](std::size_t rank) {
      const std::int64_t end = units * static_cast<std::int64_t>(rank) / static_cast<std::int64_t>(ranks_);
      return std::min(count, end * kUnit);
    };
    return {part(me_), part(me_ + 1) - part(me_)};
  }

  void all_reduce_in_place(const std::vector<DeviceCall>& all, const tensor::Tensor& data, comm::ReduceOp op) {
    std::vector<std::byte*> peers;
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (all[r].window >= windows_.size()) throw std::logic_error("a rank named a window that this one has not made");
      peers.push_back(windows_[all[r].window].ranks[r].get() + all[r].offset);
    }
    const auto [first, count] = own_part(data.numel());
    combine_at(peers, first, count, data.dtype(), op);
    meet();
  }

  /// Everybody's `from` combined, in everybody's slot 0. What is read there must be read before the next round's end.
  void combine_in_scratch(const std::byte* from, std::size_t size, tensor::DType dtype, comm::ReduceOp op) {
    publish(0, from, size);
    meet();
    const auto [first, count] = own_part(count_of(size, dtype));
    combine(0, 0, first, count, dtype, op);
    meet();
  }

  void collect(const tensor::Tensor& input, tensor::Tensor& output, int root, comm::OpKind operation) {
    const char* const what = operation == comm::OpKind::Gather ? "gather" : "all_gather";
    check_device_tensor(input, device_, what);
    const bool takes = root < 0 || is(root);
    if (takes) check_parts(output, input, what);
    begin({.operation = operation, .dtype = input.dtype(), .root = root, .count = input.numel()}, input);
    const std::size_t block = input.nbytes();
    in_chunks(block, [&](std::size_t at, std::size_t size) {
      publish(0, bytes_of(input) + at, size);
      meet();
      for (std::size_t r = 0; takes && r < ranks_; ++r) pull(r, 0, bytes_of(output) + r * block + at, size);
      meet();
    });
  }

  comm::ProcessGroup& group_;
  tensor::Device device_;
  std::size_t ranks_;
  std::size_t me_;
  std::size_t slot_bytes_;  // of one slot of the scratch; there is a slot for each rank
  std::vector<Window> windows_;
  std::uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<DeviceCollectives> make_peer_collectives(comm::ProcessGroup& group, tensor::Device device,
                                                         std::size_t chunk_bytes) {
  return std::make_unique<PeerCollectives>(group, device, chunk_bytes);
}

}  // namespace tutti::trainer
