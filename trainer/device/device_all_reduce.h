// DeviceAllReduce: the sum over all ranks of a tensor that lies on a GPU, in memory that comm knows nothing of.
//
// Two ways, chosen once, the same on all ranks:
//   nccl    every rank has a card of its own and the build found NCCL (https://docs.nvidia.com/deeplearning/nccl)
//   staged  anything else: through page-locked memory of the host and the group's own all_reduce, in chunks, so that
//           copying one chunk overlaps the next one's exchange
// Both keep the group's promises: the same calls in the same order on all ranks, compared before data moves;
// deadlines; the first cause on every rank; all ranks hold the same bits. No kernel waits for another rank: what waits
// is the host, in a collective of the group.
//
// Streams: an operation works on what the calling thread's current stream of the device has done so far, and returns
// when the result is there. Threads: one at a time, as for the group. Ownership: the group must outlive this object and
// serves it alone while a call is under way. Errors: comm::Error; std::runtime_error of CUDA; std::invalid_argument for
// a tensor that is undefined, not contiguous, or on another device.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tensor/tensor.h>

#include <memory>
#include <string>

namespace tutti::trainer {

class DeviceAllReduce {
 public:
  virtual ~DeviceAllReduce() = default;

  virtual std::string way() const = 0;  // "nccl", "staged"

  /// Collective. Every element becomes its sum over the ranks.
  virtual void sum(tensor::Tensor& data) = 0;
};

struct DeviceAllReduceOptions {
  /// "auto", "staged", "nccl"; "" = TUTTI_DEVICE_COMM, else auto. Equal on all ranks. A way that cannot be gone
  /// is std::runtime_error with the reason, on every rank.
  std::string way{};
  std::size_t chunk_bytes = 4 << 20;  // of staged transfers
};

/// Collective: all ranks of the group, each with a device on a GPU.
std::unique_ptr<DeviceAllReduce> make_device_all_reduce(comm::ProcessGroup& group, tensor::Device device,
                                                        const DeviceAllReduceOptions& options = {});

}  // namespace tutti::trainer
