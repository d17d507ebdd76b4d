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

/// A tensor (ranks, elements), made of one of another number of ranks.
tensor::Tensor dealt_out(const tensor::Tensor& saved, std::int64_t ranks, bool is_error) {
  const std::int64_t count = saved.shape()[1];
  tensor::Tensor all = tensor::Tensor::zeros({ranks, count}, saved.dtype());
  const std::int64_t used = is_error ? saved.shape()[0] : 1;
  const float share = is_error ? 1.0F / static_cast<float>(ranks) : 1.0F;
  float* const first = all.data<float>();
  for (std::int64_t r = 0; r < used; ++r) {
    const float* const values = saved.data<float>() + r * count;
    for (std::int64_t i = 0; i < count; ++i) first[i] += values[i] * share;
  }
  for (std::int64_t r = 1; r < ranks; ++r) all.narrow(0, r, 1).copy_from(all.narrow(0, 0, 1));
  return all;
}

NamedTensors dealt_out(const NamedTensors& saved, std::int64_t ranks) {
  NamedTensors all;
  for (const auto& [name, tensor] : saved) {
    const bool fits = tensor.rank() != 2 || tensor.shape()[0] == ranks || tensor.shape()[0] == 0 ||
                      tensor.dtype() != tensor::DType::Float32;  // what does not fit, assign_tensors will name
    all.emplace_back(name, fits ? tensor : dealt_out(tensor.contiguous(), ranks, name.ends_with(".error")));
  }
  return all;
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
    assign_tensors(rows, dealt_out(state, group.world_size()), "the checkpoint's exchange.safetensors");
    return std::string();
  });
  for (std::size_t i = 0; i < own.size(); ++i) {
    group.scatter(as_buffer(rows[i].second), as_buffer(own[i].second), 0);
  }
}

}  // namespace tutti::trainer
