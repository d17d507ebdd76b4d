// Collectives by NCCL, with the group's promises around it: calls are compared before NCCL sees them (a mismatch would
// hang there), and the host waits for the result with the group's deadline, after which the communicator is aborted.
#include <cuda_runtime_api.h>
#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/error.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/runtime.h>
#include <tutti/trainer/device/device_call.h>
#include <tutti/trainer/device/device_ways.h>
#include <tutti/trainer/device/nccl_library.h>

#include <chrono>
#include <string>
#include <thread>

namespace tutti::trainer {
namespace {

namespace cuda = tensor::cuda;

ncclDataType_t nccl_type(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::Float32:
      return ncclFloat32;
    case tensor::DType::Float64:
      return ncclFloat64;
    case tensor::DType::Int64:
      return ncclInt64;
    case tensor::DType::UInt8:
      return ncclUint8;
  }
  throw std::logic_error("unknown tensor dtype " + std::to_string(static_cast<int>(dtype)));
}

ncclRedOp_t nccl_op(comm::ReduceOp op) {
  switch (op) {
    case comm::ReduceOp::Sum:
      return ncclSum;
    case comm::ReduceOp::Avg:
      return ncclAvg;
    case comm::ReduceOp::Prod:
      return ncclProd;
    case comm::ReduceOp::Min:
      return ncclMin;
    case comm::ReduceOp::Max:
      return ncclMax;
    default:  // agree() has refused it
      throw std::logic_error("NCCL has no " + std::string(comm::name(op)));
  }
}

/// Sets the operations begun in its lifetime going as one.
class NcclCall {
 public:
  NcclCall() { (void)nccl().ncclGroupStart(); }
  ~NcclCall() {
    if (!ended_) (void)nccl().ncclGroupEnd();
  }
  ncclResult_t end() {
    ended_ = true;
    return nccl().ncclGroupEnd();
  }

 private:
  bool ended_ = false;
};

class NcclCollectives : public DeviceCollectives {
 public:
  NcclCollectives(comm::ProcessGroup& group, tensor::Device device) : group_(group), device_(device) {
    const cuda::DeviceGuard guard(device_.index);
    ncclUniqueId id{};
    if (group_.rank() == 0) check(nccl().ncclGetUniqueId(&id), "ncclGetUniqueId");
    group_.broadcast(comm::Buffer{&id, sizeof id, comm::DType::UInt8}, 0);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check(nccl().ncclCommInitRankConfig(&comm_, group_.world_size(), id, group_.rank(), &config), "ncclCommInitRank");
    wait_for_nccl("ncclCommInitRank");
  }
  ~NcclCollectives() override {
    if (comm_ != nullptr) (void)nccl().ncclCommAbort(comm_);  // nothing is under way: every call waits for its result
  }

  std::string way() const override { return "nccl"; }
  tensor::Device device() const override { return device_; }
  tensor::Tensor allocate(const tensor::Shape& shape, tensor::DType dtype) override {
    return tensor::Tensor::empty(shape, dtype, device_);
  }

  void broadcast(tensor::Tensor& data, int root) override {
    check_device_tensor(data, device_, "broadcast");
    run({.operation = comm::OpKind::Broadcast, .dtype = data.dtype(), .root = root, .count = data.numel()},
        [&](cudaStream_t stream) {
          return nccl().ncclBroadcast(data.raw(), data.raw(), size(data), nccl_type(data.dtype()), root, comm_, stream);
        });
  }

  void all_reduce(tensor::Tensor& data, comm::ReduceOp op) override {
    check_device_tensor(data, device_, "all_reduce");
    run({.operation = comm::OpKind::AllReduce, .reduce_op = op, .dtype = data.dtype(), .count = data.numel()},
        [&](cudaStream_t stream) {
          return nccl().ncclAllReduce(data.raw(), data.raw(), size(data), nccl_type(data.dtype()), nccl_op(op), comm_,
                                      stream);
        });
  }

  void reduce(const tensor::Tensor& input, tensor::Tensor& output, comm::ReduceOp op, int root) override {
    check_device_tensor(input, device_, "reduce");
    if (is(root)) check_device_tensor(output, device_, "reduce");
    if (is(root)) check_blocks(output, input, 1, "reduce");
    run({.operation = comm::OpKind::Reduce,
         .reduce_op = op,
         .dtype = input.dtype(),
         .root = root,
         .count = input.numel()},
        [&](cudaStream_t stream) {
          return nccl().ncclReduce(input.raw(), is(root) ? output.raw() : nullptr, size(input),
                                   nccl_type(input.dtype()), nccl_op(op), root, comm_, stream);
        });
  }

  void gather(const tensor::Tensor& input, tensor::Tensor& output, int root) override {
    check_device_tensor(input, device_, "gather");
    if (is(root)) check_parts(output, input, "gather");
    run({.operation = comm::OpKind::Gather, .dtype = input.dtype(), .root = root, .count = input.numel()},
        [&](cudaStream_t stream) {
          NcclCall call;
          for (int r = 0; is(root) && r < group_.world_size(); ++r) (void)recv_block(output, input.numel(), r, stream);
          (void)nccl().ncclSend(input.raw(), size(input), nccl_type(input.dtype()), root, comm_, stream);
          return call.end();
        });
  }

  void all_gather(const tensor::Tensor& input, tensor::Tensor& output) override {
    check_device_tensor(input, device_, "all_gather");
    check_parts(output, input, "all_gather");
    run({.operation = comm::OpKind::AllGather, .dtype = input.dtype(), .count = input.numel()},
        [&](cudaStream_t stream) {
          return nccl().ncclAllGather(input.raw(), output.raw(), size(input), nccl_type(input.dtype()), comm_, stream);
        });
  }

  void scatter(const tensor::Tensor& input, tensor::Tensor& output, int root) override {
    check_device_tensor(output, device_, "scatter");
    if (is(root)) check_parts(input, output, "scatter");
    run({.operation = comm::OpKind::Scatter, .dtype = output.dtype(), .root = root, .count = output.numel()},
        [&](cudaStream_t stream) {
          NcclCall call;
          for (int r = 0; is(root) && r < group_.world_size(); ++r) (void)send_block(input, output.numel(), r, stream);
          (void)nccl().ncclRecv(output.raw(), size(output), nccl_type(output.dtype()), root, comm_, stream);
          return call.end();
        });
  }

  void reduce_scatter(const tensor::Tensor& input, tensor::Tensor& output, comm::ReduceOp op) override {
    check_device_tensor(output, device_, "reduce_scatter");
    check_parts(input, output, "reduce_scatter");
    run({.operation = comm::OpKind::ReduceScatter, .reduce_op = op, .dtype = output.dtype(), .count = output.numel()},
        [&](cudaStream_t stream) {
          return nccl().ncclReduceScatter(input.raw(), output.raw(), size(output), nccl_type(output.dtype()),
                                          nccl_op(op), comm_, stream);
        });
  }

  void all_to_all(const tensor::Tensor& input, tensor::Tensor& output) override {
    check_device_tensor(input, device_, "all_to_all");
    check_device_tensor(output, device_, "all_to_all");
    check_blocks(input, output, 1, "all_to_all");
    check_divisible(input, group_.world_size(), "all_to_all");
    run({.operation = comm::OpKind::AllToAll, .dtype = input.dtype(), .count = input.numel()},
        [&](cudaStream_t stream) {
          NcclCall call;
          const std::int64_t block = input.numel() / group_.world_size();
          for (int r = 0; r < group_.world_size(); ++r) {
            (void)send_block(input, block, r, stream);
            (void)recv_block(output, block, r, stream);
          }
          return call.end();
        });
  }

 private:
  bool is(int rank) const { return group_.rank() == rank; }
  static std::size_t size(const tensor::Tensor& data) { return static_cast<std::size_t>(data.numel()); }

  void check_parts(const tensor::Tensor& whole, const tensor::Tensor& block, const char* what) const {
    check_device_tensor(whole, device_, what);
    check_blocks(whole, block, group_.world_size(), what);
  }

  ncclResult_t send_block(const tensor::Tensor& whole, std::int64_t count, int rank, cudaStream_t stream) {
    const auto* const from = static_cast<const std::byte*>(whole.raw()) + block_offset(whole, count, rank);
    return nccl().ncclSend(from, static_cast<std::size_t>(count), nccl_type(whole.dtype()), rank, comm_, stream);
  }
  ncclResult_t recv_block(tensor::Tensor& whole, std::int64_t count, int rank, cudaStream_t stream) {
    auto* const to = static_cast<std::byte*>(whole.raw()) + block_offset(whole, count, rank);
    return nccl().ncclRecv(to, static_cast<std::size_t>(count), nccl_type(whole.dtype()), rank, comm_, stream);
  }
  static std::size_t block_offset(const tensor::Tensor& whole, std::int64_t count, int rank) {
    return static_cast<std::size_t>(count) * static_cast<std::size_t>(rank) * tensor::size_of(whole.dtype());
  }

  template <typename Start>
  void run(DeviceCall call, const Start& start) {
    call.sequence = ++sequence_;
    agree(group_, device_, call);
    const std::string operation = "NCCL " + std::string(comm::name(call.operation));
    const cuda::DeviceGuard guard(device_.index);
    const cudaStream_t stream = cuda::current_stream(device_.index);
    check(start(stream), operation);
    wait_for_nccl(operation);
    wait_for_stream(stream, operation);
  }

  void check(ncclResult_t result, const std::string& operation) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    const char* const detail = comm_ != nullptr ? nccl().ncclGetLastError(comm_) : "";
    fail(comm::ErrorCode::System,
         operation + ": " + nccl().ncclGetErrorString(result) + (*detail != '\0' ? ": " : "") + detail);
  }

  /// A communicator that does not block answers at once and works on.
  void wait_for_nccl(const std::string& operation) {
    const comm::Deadline deadline = comm::Deadline::after(group_.timeout());
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      check(nccl().ncclCommGetAsyncError(comm_, &state), operation);
      if (state == ncclInProgress) pause(deadline, operation);
    }
    check(state, operation);
  }

  void wait_for_stream(cudaStream_t stream, const std::string& operation) {
    const comm::Deadline deadline = comm::Deadline::after(group_.timeout());
    while (true) {
      const cudaError_t status = cudaStreamQuery(stream);
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) cuda::synchronize(device_);  // throws what is wrong
      ncclResult_t state = ncclSuccess;
      check(nccl().ncclCommGetAsyncError(comm_, &state), operation);
      check(state, operation);
      pause(deadline, operation);
    }
  }

  void pause(const comm::Deadline& deadline, const std::string& operation) {
    if (deadline.expired()) {
      fail(comm::ErrorCode::Timeout, operation + " seq " + std::to_string(sequence_) + " did not end within " +
                                         std::to_string(group_.timeout().count()) +
                                         " ms: another rank is stuck or gone, or its GPU is");
    }
    std::this_thread::yield();
  }

  [[noreturn]] void fail(comm::ErrorCode code, const std::string& text) {
    const std::string whole = "rank " + std::to_string(group_.rank()) + " on " + tensor::name(device_) + ": " + text;
    if (comm_ != nullptr) (void)nccl().ncclCommAbort(comm_);
    comm_ = nullptr;
    group_.abort(whole);  // the other ranks hear the cause
    throw comm::Error(code, whole);
  }

  comm::ProcessGroup& group_;
  tensor::Device device_;
  ncclComm_t comm_ = nullptr;
  std::uint64_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<DeviceCollectives> make_nccl_collectives(comm::ProcessGroup& group, tensor::Device device) {
  return std::make_unique<NcclCollectives>(group, device);
}

}  // namespace tutti::trainer
