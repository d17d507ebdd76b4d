#include <tutti/nn/optim/clip_grad.h>
#include <tutti/trainer/data_parallel/sharding/shard_exchange.h>
#include <tutti/trainer/data_parallel/sharding/sharded_optimizer.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace tutti::trainer {

using tensor::Tensor;
using tensor::Variable;

namespace {

Tensor part_of(const Tensor& flat, std::size_t begin, std::size_t count) {
  return flat.narrow(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(count));
}

Tensor flattened(const Tensor& tensor) { return tensor.reshape({tensor.numel()}); }

Tensor zeros(std::size_t count, tensor::DType dtype) {
  return Tensor::zeros({static_cast<std::int64_t>(count)}, dtype);
}

/// Shares its memory. Throws std::logic_error for a name that is not there.
Tensor named(const NamedTensors& tensors, const std::string& name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const auto& entry) { return entry.first == name; });
  if (found == tensors.end()) throw std::logic_error("the optimizer's state has no \"" + name + "\"");
  return found->second;
}

std::string name_of(std::size_t parameter, const std::string& key) { return std::to_string(parameter) + "." + key; }

}  // namespace

struct ShardedOptimizer::BucketPart {
  Bucket bucket;
  Shard shard;
  Tensor memory;                 // all parameters of the bucket, and padding to the end of the last shard
  Tensor mine;                   // this rank's shard of it
  std::vector<Variable> pieces;  // by piece of the shard
  std::unique_ptr<nn::Optimizer> optimizer;
};

ShardedOptimizer::ShardedOptimizer(std::vector<Variable> parameters, const std::vector<Bucket>& buckets,
                                   comm::ProcessGroup& group, const OptimizerFactory& make,
                                   std::optional<double> clip_norm)
    : Optimizer(std::move(parameters)),
      group_(group),
      make_(make),
      clip_norm_(clip_norm),
      works_(group, buckets.size()) {
  for (const Bucket& bucket : buckets) {
    if (bucket.dtype != tensor::DType::Float32) {
      throw std::invalid_argument("a sharded optimizer updates float32, but parameter " +
                                  std::to_string(bucket.slots.front().parameter) + " is " +
                                  std::string(tensor::name(bucket.dtype)));
    }
    BucketPart part;
    part.bucket = bucket;
    part.shard = shard_of(bucket, group.rank(), group.world_size());
    const std::size_t count = part.shard.size * static_cast<std::size_t>(group.world_size());
    const auto memory = group.allocate(count * tensor::size_of(bucket.dtype));
    part.memory = Tensor::over(memory.data(), memory.memory, {static_cast<std::int64_t>(count)}, bucket.dtype);
    part.mine = part_of(part.memory, part.shard.begin, part.shard.size);
    for (const BucketSlot& slot : bucket.slots) {
      Tensor& data = parameters_[slot.parameter].data();
      const Tensor place =
          part_of(part.memory, slot.offset, slot.count).reshape(data.shape()).shared_with(data.device());
      Tensor(place).copy_from(data);
      data = place;
    }
    for (const ShardPiece& piece : part.shard.pieces) {
      part.pieces.emplace_back(part_of(part.memory, part.shard.begin + piece.at, piece.count), true);
    }
    part.optimizer = make_(part.pieces);
    learning_rate_ = part.optimizer->learning_rate();
    parts_.push_back(std::move(part));
  }
  if (parts_.empty()) throw std::invalid_argument("a sharded optimizer needs parameters");
}

ShardedOptimizer::~ShardedOptimizer() { works_.abandon(); }

std::string_view ShardedOptimizer::name() const { return parts_.front().optimizer->name(); }

void ShardedOptimizer::step() {
  for (BucketPart& part : parts_) find_gradients(part);
  if (clip_norm_) clip();
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    parts_[b].optimizer->set_learning_rate(learning_rate_);
    parts_[b].optimizer->step();
    gather_parameters(b);
  }
  for (std::size_t b = 0; b < parts_.size(); ++b) works_.wait(b);
  learning_rate_ = parts_.front().optimizer->learning_rate();
}

void ShardedOptimizer::find_gradients(BucketPart& part) {
  for (std::size_t i = 0; i < part.pieces.size(); ++i) {
    const ShardPiece& piece = part.shard.pieces[i];
    Variable& parameter = parameters_[piece.parameter];
    if (parameter.has_grad()) {
      const Tensor gradient = parameter.grad().shared_with({});  // the pieces are on the CPU's first device
      part.pieces[i].grad() = part_of(flattened(gradient), piece.begin, piece.count);
    } else {
      part.pieces[i].zero_grad();
    }
  }
}

void ShardedOptimizer::clip() {
  double squares = 0;
  for (BucketPart& part : parts_) squares += nn::sum_of_squared_gradients(part.pieces);
  group_.all_reduce(std::span(&squares, 1));
  for (BucketPart& part : parts_) nn::clip_gradients_of_norm(part.pieces, std::sqrt(squares), *clip_norm_);
}

void ShardedOptimizer::gather_parameters(std::size_t bucket) {
  if (group_.world_size() == 1) return;
  BucketPart& part = parts_[bucket];
  const comm::Buffer mine = as_buffer(part.mine);
  const comm::Buffer whole = as_buffer(part.memory);
  if (bucket + 1 == parts_.size()) return group_.all_gather(mine, whole);  // nothing to hide it behind
  works_.add(bucket, group_.all_gather_async(mine, whole));
}

std::vector<std::pair<std::string, Tensor>> ShardedOptimizer::state() {
  std::vector<std::pair<std::string, Tensor>> all;
  const auto list = entries();
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    const NamedTensors held = parts_[b].optimizer->state();
    for (const Entry& entry : list) {
      if (entry.extent == Extent::Global) {
        all.emplace_back("bucket" + std::to_string(b) + "." + entry.key, named(held, entry.key));
        continue;
      }
      for (std::size_t i = 0; i < parts_[b].pieces.size(); ++i) {
        all.emplace_back(name_of(parts_[b].shard.pieces[i].parameter, entry.key), named(held, name_of(i, entry.key)));
      }
    }
  }
  return all;
}

std::size_t ShardedOptimizer::state_bytes() {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : state()) bytes += tensor.nbytes();
  return bytes;
}

std::size_t ShardedOptimizer::whole_state_bytes() const {
  std::size_t bytes = 0;
  for (const Entry& entry : entries()) {
    const std::size_t size = tensor::size_of(entry.dtype);
    if (entry.extent == Extent::Global) bytes += size;
    if (entry.extent == Extent::PerParameter) bytes += size * parameters_.size();
    for (std::size_t p = 0; p < parameters_.size() && entry.extent == Extent::PerElement; ++p) {
      bytes += size * static_cast<std::size_t>(parameters_[p].data().numel());
    }
  }
  return bytes;
}

/// What the rule keeps, in its order: asked of an optimizer for one parameter of two elements.
std::vector<ShardedOptimizer::Entry> ShardedOptimizer::entries() const {
  constexpr std::int64_t kElements = 2;
  std::vector<Entry> list;
  for (const auto& [name, tensor] : make_({Variable(Tensor::zeros({kElements}), true)})->state()) {
    if (name.rfind("0.", 0) != 0) {
      list.push_back({name, Extent::Global, tensor.dtype()});
    } else {
      list.push_back(
          {name.substr(2), tensor.numel() == kElements ? Extent::PerElement : Extent::PerParameter, tensor.dtype()});
    }
    if (list.back().extent != Extent::PerElement && (tensor.numel() != 1 || tensor.dtype() != tensor::DType::Int64)) {
      throw std::logic_error("the state \"" + name + "\" of " + std::string(this->name()) +
                             " is neither per element nor one int64, and cannot be sharded");
    }
  }
  return list;
}

NamedTensors ShardedOptimizer::full_state() {
  const auto list = entries();
  NamedTensors all;
  std::vector<std::vector<Tensor>> columns;  // by entry, by parameter
  for (const Entry& entry : list) columns.push_back(gathered(entry));
  if (group_.rank() != 0) return all;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    for (std::size_t e = 0; e < list.size(); ++e) {
      if (list[e].extent != Extent::Global) all.emplace_back(name_of(p, list[e].key), columns[e][p]);
    }
  }
  for (std::size_t e = 0; e < list.size(); ++e) {
    if (list[e].extent == Extent::Global) all.emplace_back(list[e].key, columns[e][0]);
  }
  return all;
}

/// By parameter; a global entry alone.
std::vector<Tensor> ShardedOptimizer::gathered(const Entry& entry) {
  switch (entry.extent) {
    case Extent::PerElement:
      return gathered_elements(entry);
    case Extent::PerParameter:
      return gathered_counts(entry);
    case Extent::Global:  // equal everywhere
      return {named(parts_.front().optimizer->state(), entry.key).clone()};
  }
  throw std::logic_error("an unknown extent of optimizer state");
}

std::vector<Tensor> ShardedOptimizer::gathered_elements(const Entry& entry) {
  std::vector<Tensor> by_parameter(parameters_.size());
  for (BucketPart& part : parts_) {
    const NamedTensors held = part.optimizer->state();
    Tensor mine = zeros(part.shard.size, entry.dtype);
    for (std::size_t i = 0; i < part.pieces.size(); ++i) {
      const ShardPiece& piece = part.shard.pieces[i];
      part_of(mine, piece.at, piece.count).copy_from(named(held, name_of(i, entry.key)));
    }
    Tensor whole = zeros(group_.rank() == 0 ? static_cast<std::size_t>(part.memory.numel()) : 0, entry.dtype);
    group_.gather(as_buffer(mine), as_buffer(whole), 0);
    if (group_.rank() != 0) continue;
    for (const BucketSlot& slot : part.bucket.slots) {
      const Tensor place = part_of(whole, slot.offset, slot.count);
      by_parameter[slot.parameter] = place.clone().reshape(parameters_[slot.parameter].shape());
    }
  }
  return by_parameter;
}

std::vector<Tensor> ShardedOptimizer::gathered_counts(const Entry& entry) {
  Tensor counts = zeros(parameters_.size(), entry.dtype);
  for (BucketPart& part : parts_) {
    const NamedTensors held = part.optimizer->state();
    for (std::size_t i = 0; i < part.pieces.size(); ++i) {
      const std::size_t parameter = part.shard.pieces[i].parameter;
      counts.data<std::int64_t>()[parameter] = *named(held, name_of(i, entry.key)).data<std::int64_t>();
    }
  }
  all_reduce(group_, counts, comm::ReduceOp::Max);  // ranks that own a piece of it count alike, the others have 0
  std::vector<Tensor> by_parameter;
  for (std::size_t p = 0; p < parameters_.size(); ++p) by_parameter.push_back(part_of(counts, p, 1).clone());
  return by_parameter;
}

void ShardedOptimizer::load_full_state(const NamedTensors& state) {
  for (const Entry& entry : entries()) {
    if (entry.extent == Extent::PerElement) {
      scatter_elements(entry, state);
    } else {
      scatter_counts(entry, state);
    }
  }
}

void ShardedOptimizer::scatter_elements(const Entry& entry, const NamedTensors& state) {
  const bool root = group_.rank() == 0;
  for (BucketPart& part : parts_) {
    Tensor whole = zeros(root ? static_cast<std::size_t>(part.memory.numel()) : 0, entry.dtype);
    for (const BucketSlot& slot : part.bucket.slots) {
      if (!root) break;
      part_of(whole, slot.offset, slot.count).copy_from(flattened(named(state, name_of(slot.parameter, entry.key))));
    }
    Tensor mine = zeros(part.shard.size, entry.dtype);
    group_.scatter(as_buffer(whole), as_buffer(mine), 0);
    const NamedTensors held = part.optimizer->state();
    for (std::size_t i = 0; i < part.pieces.size(); ++i) {
      const ShardPiece& piece = part.shard.pieces[i];
      named(held, name_of(i, entry.key)).copy_from(part_of(mine, piece.at, piece.count));
    }
  }
}

void ShardedOptimizer::scatter_counts(const Entry& entry, const NamedTensors& state) {
  const bool global = entry.extent == Extent::Global;
  Tensor counts = zeros(global ? 1 : parameters_.size(), entry.dtype);
  for (std::int64_t p = 0; p < counts.numel() && group_.rank() == 0; ++p) {
    const std::string name = global ? entry.key : name_of(static_cast<std::size_t>(p), entry.key);
    counts.data<std::int64_t>()[p] = *named(state, name).data<std::int64_t>();
  }
  broadcast(group_, counts, 0);
  for (BucketPart& part : parts_) {
    const NamedTensors held = part.optimizer->state();
    if (global) named(held, entry.key).copy_from(counts);
    for (std::size_t i = 0; i < part.pieces.size() && !global; ++i) {
      named(held, name_of(i, entry.key)).copy_from(part_of(counts, part.shard.pieces[i].parameter, 1));
    }
  }
}

NamedTensors full_optimizer_state(nn::Optimizer& optimizer) {
  auto* const sharded = dynamic_cast<ShardedOptimizer*>(&optimizer);
  return sharded != nullptr ? sharded->full_state() : optimizer.state();
}

void share_optimizer_state(comm::ProcessGroup& group, nn::Optimizer& optimizer, const NamedTensors& state) {
  if (auto* const sharded = dynamic_cast<ShardedOptimizer*>(&optimizer)) return sharded->load_full_state(state);
  for (auto& [name, tensor] : optimizer.state()) broadcast(group, tensor, 0);
}

}  // namespace tutti::trainer
