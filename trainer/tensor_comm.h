// The bridge between tensor and comm: types, buffers, and collectives on whole tensors and texts.
//
// Thread-safety and ordering: those of comm::ProcessGroup. Errors: comm::Error; std::invalid_argument for a tensor that
// a collective cannot take (undefined, not contiguous, not on the CPU).
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/tensor/tensor.h>

#include <string>
#include <type_traits>
#include <vector>

namespace tutti::trainer {

comm::DType to_comm(tensor::DType dtype);

/// The tensor's memory as comm sees it; the tensor must outlive its use.
comm::Buffer as_buffer(tensor::Tensor& tensor);

// Of tensors on a GPU by way of the host: for what is rare. Gradients go by device/device_exchange.h.

/// Root's elements overwrite everybody else's.
void broadcast(comm::ProcessGroup& group, tensor::Tensor& tensor, int root);
void all_reduce(comm::ProcessGroup& group, tensor::Tensor& tensor, comm::ReduceOp op = comm::ReduceOp::Sum);

/// Root's text on every rank; the other ranks' argument is ignored.
std::string broadcast_text(comm::ProcessGroup& group, const std::string& text, int root);

/// Every rank's value, by rank, on every rank, as it lies in memory: ranks of one job run one program.
template <typename T>
requires std::is_trivially_copyable_v<T> std::vector<T> all_gather_values(comm::ProcessGroup& group, const T& mine) {
  std::vector<T> all(static_cast<std::size_t>(group.world_size()));
  group.all_gather(comm::ConstBuffer(&mine, sizeof mine, comm::DType::UInt8),
                   comm::Buffer{all.data(), sizeof mine * all.size(), comm::DType::UInt8});
  return all;
}

/// Every rank's text, by rank, on every rank.
std::vector<std::string> all_gather_texts(comm::ProcessGroup& group, const std::string& text);

}  // namespace tutti::trainer
