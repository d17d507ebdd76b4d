// Collectives on tensors that lie on a GPU: the verbs of comm::ProcessGroup, for memory that comm knows nothing of.
//
// Two ways, chosen once, the same on all ranks:
//   nccl    every rank has a card of its own and the build found NCCL (https://docs.nvidia.com/deeplearning/nccl)
//   staged  anything else: through page-locked memory of the host and the group's own collectives, in chunks, so that
//           copying one chunk overlaps the next one's exchange
// Both keep the group's promises: the same calls in the same order on all ranks, compared before data moves;
// deadlines; the first cause on every rank; all ranks hold the same bits. No kernel waits for another rank: what waits
// is the host, in a collective of the group.
//
// Streams: an operation works on what the calling thread's current stream of the device has done so far, and returns
// when the result is there. Threads: one at a time, as for the group. Ownership: the group must outlive this object and
// serves it alone while a call is under way. Errors: comm::Error; std::runtime_error of CUDA; std::invalid_argument for
// a tensor that is undefined, not contiguous, on another device, or of the wrong length.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tensor/tensor.h>

#include <memory>
#include <string>

namespace tutti::trainer {

class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;

  virtual std::string way() const = 0;  // "nccl", "staged"
  virtual tensor::Device device() const = 0;

  /// Collective: all ranks ask for the same. Memory on which all_reduce copies nothing first. Undefined contents.
  virtual tensor::Tensor allocate(const tensor::Shape& shape, tensor::DType dtype) = 0;

  virtual void broadcast(tensor::Tensor& data, int root) = 0;
  virtual void all_reduce(tensor::Tensor& data, comm::ReduceOp op = comm::ReduceOp::Sum) = 0;
  /// `output` is the root's; other ranks pass an undefined tensor. `input` is only read.
  virtual void reduce(const tensor::Tensor& input, tensor::Tensor& output, comm::ReduceOp op, int root) = 0;
  /// `output` (the root's): world_size blocks of input's length.
  virtual void gather(const tensor::Tensor& input, tensor::Tensor& output, int root) = 0;
  virtual void all_gather(const tensor::Tensor& input, tensor::Tensor& output) = 0;
  /// `input` (the root's): world_size blocks of output's length.
  virtual void scatter(const tensor::Tensor& input, tensor::Tensor& output, int root) = 0;
  virtual void reduce_scatter(const tensor::Tensor& input, tensor::Tensor& output,
                              comm::ReduceOp op = comm::ReduceOp::Sum) = 0;
  virtual void all_to_all(const tensor::Tensor& input, tensor::Tensor& output) = 0;
};

struct DeviceCollectivesOptions {
  /// "auto", "staged", "nccl"; "" = TUTTI_DEVICE_COMM, else auto. Equal on all ranks. A way that cannot be gone
  /// is std::runtime_error with the reason, on every rank.
  std::string way{};
  std::size_t chunk_bytes = 4 << 20;  // of staged transfers
};

/// Collective: all ranks of the group, each with a device on a GPU.
std::unique_ptr<DeviceCollectives> make_device_collectives(comm::ProcessGroup& group, tensor::Device device,
                                                           const DeviceCollectivesOptions& options = {});

}  // namespace tutti::trainer
