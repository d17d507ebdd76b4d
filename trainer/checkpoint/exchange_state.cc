#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/exchange_state.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/tensor_comm.h>

#include <utility>

namespace tutti::trainer {
namespace {

tensor::Tensor memory_for_all(const comm::ProcessGroup& group, const tensor::Tensor& own) {
  return tensor::Tensor::empty({std::int64_t{group.world_size()}, own.numel()}, own.dtype());
}

}  // namespace

NamedTensors gather_exchange_state(comm::ProcessGroup& group, GradientExchange* exchange) {
  NamedTensors all;
  if (exchange == nullptr) return all;
  for (auto& [name, own] : exchange->state()) {
    const bool root = group.rank() == 0;
    tensor::Tensor rows = root ? memory_for_all(group, own) : tensor::Tensor::empty({0}, own.dtype());
    group.gather(as_buffer(own), as_buffer(rows), 0);
    if (root) all.emplace_back(name, std::move(rows));
  }
  return all;
}

void scatter_exchange_state(comm::ProcessGroup& group, const NamedTensors& state, GradientExchange& exchange) {
  const bool root = group.rank() == 0;
  NamedTensors rows;
  auto own = exchange.state();
  for (auto& [name, tensor] : own) {
    rows.emplace_back(name, root ? memory_for_all(group, tensor) : tensor::Tensor::empty({0}, tensor.dtype()));
  }
  on_rank0(group, [&] {
    assign_tensors(rows, state, "the checkpoint's exchange.safetensors");
    return std::string();
  });
  for (std::size_t i = 0; i < own.size(); ++i) {
    group.scatter(as_buffer(rows[i].second), as_buffer(own[i].second), 0);
  }
}

}  // namespace tutti::trainer
