// All_reduce by NCCL, with the group's promises around it: calls are compared before NCCL sees them (a mismatch would
// hang there), and the host waits for the result with the group's deadline, after which the communicator is aborted.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/error.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/runtime.h>
#include <tutti/tensor/cuda/shared_library.h>
#include <tutti/trainer/device/device_ways.h>
#include <tutti/trainer/tensor_comm.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

namespace tutti::trainer {
namespace {

namespace cuda = tensor::cuda;

// The functions of NCCL that are called here, under their own names; opened when ranks first use it, so that a program
// that was built with NCCL starts and runs without.
#define TUTTI_NCCL_FUNCTIONS(F) \
  F(ncclAllReduce)              \
  F(ncclCommAbort)              \
  F(ncclCommGetAsyncError)      \
  F(ncclCommInitRankConfig)     \
  F(ncclGetErrorString)         \
  F(ncclGetLastError)           \
  F(ncclGetUniqueId)

struct Nccl {
#define TUTTI_DECLARE(function) decltype(&::function) function = nullptr;
  TUTTI_NCCL_FUNCTIONS(TUTTI_DECLARE)
#undef TUTTI_DECLARE
};

Nccl load_nccl() {
  const cuda::SharedLibrary library("libnccl.so." + std::to_string(NCCL_MAJOR));
  if (!library.loaded()) throw std::runtime_error("NCCL cannot be used: " + library.complaint());
  Nccl table;
#define TUTTI_FIND(function) library.find(table.function, #function);
  TUTTI_NCCL_FUNCTIONS(TUTTI_FIND)
#undef TUTTI_FIND
  return table;
}

/// Throws std::runtime_error when the library cannot be loaded, in the dynamic linker's words.
const Nccl& nccl() {
  static const Nccl table = load_nccl();  // a load that throws is tried again by the next caller
  return table;
}

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

/// What the ranks must agree on.
struct Call {
  std::uint64_t sequence = 0;
  std::int64_t count = 0;
  tensor::DType dtype{};
};

std::string text_of(const Call& call) {
  return "all_reduce seq " + std::to_string(call.sequence) + " sum " + std::string(tensor::name(call.dtype)) + " x " +
         std::to_string(call.count);
}

/// Collective. Throws comm::Error{Mismatch} with both sides' values on every rank if two differ.
void agree(comm::ProcessGroup& group, tensor::Device device, const Call& mine) {
  const std::vector<Call> all = all_gather_values(group, mine);
  const auto values = [](const Call& call) { return std::tie(call.sequence, call.count, call.dtype); };
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (values(all[r]) == values(all[0])) continue;
    throw comm::Error(comm::ErrorCode::Mismatch, "on " + tensor::name(device) + " rank 0 called " + text_of(all[0]) +
                                                     ", but rank " + std::to_string(r) + " called " + text_of(all[r]));
  }
}

class NcclAllReduce : public DeviceAllReduce {
 public:
  NcclAllReduce(comm::ProcessGroup& group, tensor::Device device) : group_(group), device_(device) {
    cuda::use_device(device_.index);
    ncclUniqueId id{};
    if (group_.rank() == 0) check(nccl().ncclGetUniqueId(&id), "ncclGetUniqueId");
    group_.broadcast(comm::Buffer{&id, sizeof id, comm::DType::UInt8}, 0);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check(nccl().ncclCommInitRankConfig(&comm_, group_.world_size(), id, group_.rank(), &config), "ncclCommInitRank");
    wait_for_nccl("ncclCommInitRank");
  }
  ~NcclAllReduce() override {
    if (comm_ != nullptr) (void)nccl().ncclCommAbort(comm_);  // nothing is under way: every call waits for its result
  }

  std::string way() const override { return "nccl"; }

  void sum(tensor::Tensor& data) override {
    check_device_tensor(data, device_);
    agree(group_, device_, {.sequence = ++sequence_, .count = data.numel(), .dtype = data.dtype()});
    cuda::use_device(device_.index);
    const cudaStream_t stream = cuda::current_stream(device_.index);
    check(nccl().ncclAllReduce(data.raw(), data.raw(), static_cast<std::size_t>(data.numel()), nccl_type(data.dtype()),
                               ncclSum, comm_, stream),
          "NCCL all_reduce");
    wait_for_nccl("NCCL all_reduce");
    wait_for_stream(stream, "NCCL all_reduce");
  }

 private:
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

std::string against_nccl() {
  try {
    (void)nccl();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

std::unique_ptr<DeviceAllReduce> make_nccl_all_reduce(comm::ProcessGroup& group, tensor::Device device) {
  return std::make_unique<NcclAllReduce>(group, device);
}

}  // namespace tutti::trainer
