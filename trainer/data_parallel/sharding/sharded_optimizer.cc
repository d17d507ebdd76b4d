#include <tutti/nn/optim/clip_grad.h>
#include <tutti/trainer/data_parallel/sharding/shard_exchange.h>
#include <tutti/trainer/data_parallel/sharding/sharded_optimizer.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <cmath>
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
  Tensor shared;                 // what the ranks gather: the same, or, for a GPU, a copy on the host
  std::vector<Variable> pieces;  // by piece of the shard
  std::unique_ptr<nn::Optimizer> optimizer;

  bool is_copied() const { return memory.device() != shared.device(); }
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
    part.shared = Tensor::over(memory.data(), memory.memory, {static_cast<std::int64_t>(count)}, bucket.dtype);
    const tensor::Device device = parameters_[bucket.slots.front().parameter].data().device();
    part.memory = device.kind == tensor::Device::Kind::Cuda ? part.shared.to(device) : part.shared;
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
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    works_.wait(b);
    if (parts_[b].is_copied()) parts_[b].memory.copy_from(parts_[b].shared);
  }
  learning_rate_ = parts_.front().optimizer->learning_rate();
}

void ShardedOptimizer::find_gradients(BucketPart& part) {
  for (std::size_t i = 0; i < part.pieces.size(); ++i) {
    const ShardPiece& piece = part.shard.pieces[i];
    Variable& parameter = parameters_[piece.parameter];
    if (parameter.has_grad()) {
      const Tensor gradient = parameter.grad().shared_with(part.memory.device());  // that the pieces are on
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
  BucketPart& part = parts_[bucket];
  Tensor mine = part_of(part.shared, part.shard.begin, part.shard.size);
  if (part.is_copied()) mine.copy_from(part_of(part.memory, part.shard.begin, part.shard.size));
  works_.begin(bucket, {.op = comm::OpKind::AllGather, .input = as_buffer(mine), .output = as_buffer(part.shared)});
}

std::vector<std::pair<std::string, Tensor>> ShardedOptimizer::state() {
  std::vector<std::pair<std::string, Tensor>> all;
  for (std::size_t b = 0; b < parts_.size(); ++b) {
    for (auto& [name, tensor] : parts_[b].optimizer->state()) {
      all.emplace_back("bucket" + std::to_string(b) + "." + name, tensor);
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
    for (std::size_t p = 0; p < (entry.extent == Extent::Global ? 1 : parameters_.size()); ++p) {
      bytes += tensor::size_of(entry.dtype) * static_cast<std::size_t>(shape_of(entry, p).numel());
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

tensor::Shape ShardedOptimizer::shape_of(const Entry& entry, std::size_t parameter) const {
  return entry.extent == Extent::PerElement ? parameters_[parameter].shape() : tensor::Shape{1};
}

void ShardedOptimizer::for_whole_state(const UseOfState& use) {
  std::vector<NamedTensors> held;  // by bucket
  for (BucketPart& part : parts_) held.push_back(part.optimizer->state());
  const auto visit = [&](const Entry& entry, std::size_t parameter) {
    Tensor whole = Tensor::zeros(shape_of(entry, parameter), entry.dtype);
    std::vector<std::pair<Tensor, Tensor>> mine;
    for (std::size_t b = 0; b < parts_.size(); ++b) {
      if (entry.extent == Extent::Global) mine.emplace_back(whole, named(held[b], entry.key));
      for (std::size_t i = 0; i < parts_[b].pieces.size() && entry.extent != Extent::Global; ++i) {
        const ShardPiece& piece = parts_[b].shard.pieces[i];
        if (piece.parameter != parameter) continue;
        const bool per_element = entry.extent == Extent::PerElement;
        mine.emplace_back(per_element ? part_of(flattened(whole), piece.begin, piece.count) : whole,
                          named(held[b], name_of(i, entry.key)));
      }
    }
    use(entry.extent == Extent::Global ? entry.key : name_of(parameter, entry.key), whole, mine);
  };
  const auto list = entries();
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    for (const Entry& entry : list) {
      if (entry.extent != Extent::Global) visit(entry, p);
    }
  }
  for (const Entry& entry : list) {
    if (entry.extent == Extent::Global) visit(entry, 0);
  }
}

NamedTensors ShardedOptimizer::full_state() {
  NamedTensors all;
  for_whole_state([&](const std::string& name, Tensor& whole, std::vector<std::pair<Tensor, Tensor>>& mine) {
    for (auto& [place, own] : mine) place.copy_from(own);
    // Where a rank owns nothing it has zero bits, and owners of the same have the same bits.
    const comm::Buffer bits{whole.raw(), whole.nbytes(), comm::DType::UInt8};
    const bool root = group_.rank() == 0;
    group_.reduce(bits, root ? bits : comm::Buffer{nullptr, 0, comm::DType::UInt8}, comm::ReduceOp::BOr, 0);
    if (root) all.emplace_back(name, whole);
  });
  return all;
}

void ShardedOptimizer::load_full_state(const NamedTensors& state) {
  for_whole_state([&](const std::string& name, Tensor& whole, std::vector<std::pair<Tensor, Tensor>>& mine) {
    if (group_.rank() == 0) whole.copy_from(named(state, name));
    broadcast(group_, whole, 0);
    for (auto& [place, own] : mine) own.copy_from(place);
  });
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
