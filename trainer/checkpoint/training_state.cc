#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/training_state.h>
#include <tutti/trainer/data_parallel/sharded_optimizer.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace tutti::trainer {
namespace {

using tensor::Tensor;

const std::string kPrefix = "exchange.";

bool is_exchange(const std::string& name) { return name.rfind(kPrefix, 0) == 0; }

/// Shares the tensors' memory.
NamedTensors selected(const NamedTensors& tensors, bool of_exchange) {
  NamedTensors some;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(some),
               [&](const auto& entry) { return is_exchange(entry.first) == of_exchange; });
  return some;
}

tensor::Shape stacked(std::int64_t ranks, const tensor::Shape& shape) {
  std::vector<std::int64_t> extents{ranks};
  extents.insert(extents.end(), shape.extents().begin(), shape.extents().end());
  return tensor::Shape(extents);
}

/// (ranks, elements of one rank)
Tensor rows_of(const Tensor& tensor) {
  const std::int64_t ranks = tensor.shape()[0];
  return tensor.reshape({ranks, ranks > 0 ? tensor.numel() / ranks : 0});
}

/// One entry of a world of another size.
void deal_out(Tensor to, const Tensor& from, bool is_sum) {
  Tensor row = Tensor::zeros({1, from.shape()[1]}, from.dtype());
  const std::int64_t used = is_sum ? from.shape()[0] : 1;
  const auto share = is_sum ? 1.0F / static_cast<float>(to.shape()[0]) : 1.0F;
  for (std::int64_t r = 0; r < used; ++r) {
    const float* const values = from.data<float>() + r * from.shape()[1];
    for (std::int64_t i = 0; i < row.numel(); ++i) row.data<float>()[i] += values[i] * share;
  }
  for (std::int64_t r = 0; r < to.shape()[0]; ++r) to.narrow(0, r, 1).copy_from(row);
}

void assign_exchange(const NamedTensors& whole, const NamedTensors& saved, const std::string& origin) {
  if (saved.empty()) return;  // of a world of one
  NamedTensors fitting;
  for (const auto& [name, target] : whole) {
    const auto found = std::find_if(saved.begin(), saved.end(), [&, &wanted = name](const auto& entry) {
      return entry.first == wanted && entry.second.rank() == target.rank() && entry.second.dtype() == target.dtype();
    });
    if (found == saved.end() || found->second.shape()[0] == target.shape()[0] || found->second.shape()[0] == 0)
      continue;
    Tensor dealt = Tensor::zeros(target.shape(), target.dtype());
    const Tensor rows = rows_of(found->second.contiguous());
    if (rows.shape()[1] != rows_of(target).shape()[1]) continue;  // assign_tensors will say it
    deal_out(rows_of(dealt), rows, name.ends_with(".error"));
    fitting.emplace_back(name, dealt);
  }
  for (const auto& [name, tensor] : saved) {
    const bool dealt = std::any_of(fitting.begin(), fitting.end(),
                                   [&wanted = name](const auto& entry) { return entry.first == wanted; });
    if (!dealt) fitting.emplace_back(name, tensor);
  }
  assign_tensors(whole, fitting, origin);
}

}  // namespace

NamedTensors whole_training_state(comm::ProcessGroup& group, nn::Optimizer& optimizer, GradientExchange* exchange) {
  NamedTensors whole = full_optimizer_state(optimizer);
  if (exchange == nullptr) return whole;
  const bool root = group.rank() == 0;
  for (auto& [name, tensor] : exchange->state()) {
    Tensor stack = Tensor::zeros(stacked(root ? group.world_size() : 0, tensor.shape()), tensor.dtype());
    group.gather(as_buffer(tensor), as_buffer(stack), 0);
    if (root) whole.emplace_back(kPrefix + name, std::move(stack));
  }
  return whole;
}

void assign_training_state(const NamedTensors& whole, const NamedTensors& saved, const std::string& origin) {
  const NamedTensors of_exchange = selected(whole, true);
  assign_tensors(selected(whole, false), selected(saved, false), origin);
  if (!of_exchange.empty()) assign_exchange(of_exchange, selected(saved, true), origin);
}

void share_training_state(comm::ProcessGroup& group, nn::Optimizer& optimizer, GradientExchange* exchange,
                          const NamedTensors& whole) {
  share_optimizer_state(group, optimizer, selected(whole, false));
  if (exchange == nullptr) return;
  NamedTensors stacks = selected(whole, true);
  const NamedTensors local = exchange->state();
  if (group.rank() == 0 && stacks.size() != local.size()) {
    throw std::logic_error("share_training_state: " + std::to_string(stacks.size()) + " tensors of the exchange for " +
                           std::to_string(local.size()));
  }
  for (std::size_t i = 0; i < local.size(); ++i) {
    Tensor mine = local[i].second;
    Tensor stack = group.rank() == 0 ? stacks[i].second : Tensor::zeros({0}, mine.dtype());
    group.scatter(as_buffer(stack), as_buffer(mine), 0);
  }
}

}  // namespace tutti::trainer
