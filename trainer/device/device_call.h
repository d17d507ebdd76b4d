// What all ranks must agree on before data on their GPUs moves, as the group's fingerprints do for its own collectives.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tensor/device.h>
#include <tutti/tensor/dtype.h>

#include <cstdint>

namespace tutti::trainer {

/// Travels between ranks as it lies in memory; ranks of one job run one program.
struct DeviceCall {
  comm::OpKind operation{};
  comm::ReduceOp reduce_op = comm::ReduceOp::Sum;
  tensor::DType dtype{};
  std::int32_t root = -1;
  std::uint64_t sequence = 0;
  std::int64_t count = 0;
};

/// Collective. Throws comm::Error{Mismatch} with both sides' values on every rank if
/// two differ, and std::invalid_argument for an operator that GPUs do not know or `dtype` does not have.
void agree(comm::ProcessGroup& group, tensor::Device device, const DeviceCall& mine);

}  // namespace tutti::trainer
