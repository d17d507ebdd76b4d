#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace tutti::trainer {

comm::DType to_comm(tensor::DType dtype) {
  switch (dtype) {  // no default: a new type must be mapped before this compiles
    case tensor::DType::Float32:
      return comm::DType::Float32;
    case tensor::DType::Float64:
      return comm::DType::Float64;
    case tensor::DType::Int64:
      return comm::DType::Int64;
    case tensor::DType::UInt8:
      return comm::DType::UInt8;
  }
  throw std::logic_error("unknown tensor dtype " + std::to_string(static_cast<int>(dtype)));
}

comm::Buffer as_buffer(tensor::Tensor& tensor) {
  if (!tensor.defined()) throw std::invalid_argument("a collective on an undefined tensor");
  if (!tensor.is_contiguous()) {
    throw std::invalid_argument("a collective on a tensor of shape " + tensor.shape().to_string() +
                                " that is not contiguous; use contiguous() first");
  }
  if (tensor.device().kind != tensor::Device::Kind::Cpu) {
    throw std::invalid_argument("a collective on a tensor on " + tensor::name(tensor.device()) +
                                "; comm reads the host's memory: copy it with to()");
  }
  return {tensor.raw(), static_cast<std::size_t>(tensor.numel()), to_comm(tensor.dtype())};
}

namespace {

/// Runs `collective` on the tensor's elements, on a copy of the host's if they lie on a GPU.
template <typename F>
void on_host(tensor::Tensor& tensor, F&& collective) {
  if (!tensor.defined() || tensor.device().kind == tensor::Device::Kind::Cpu) return collective(tensor);
  tensor::Tensor copy = tensor.to(tensor::Device());
  collective(copy);
  tensor.copy_from(copy);
}

}  // namespace

void broadcast(comm::ProcessGroup& group, tensor::Tensor& tensor, int root) {
  on_host(tensor, [&](tensor::Tensor& data) { group.broadcast(as_buffer(data), root); });
}

void all_reduce(comm::ProcessGroup& group, tensor::Tensor& tensor, comm::ReduceOp op) {
  on_host(tensor, [&](tensor::Tensor& data) { group.all_reduce(as_buffer(data), op); });
}

std::string broadcast_text(comm::ProcessGroup& group, const std::string& text, int root) {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  group.broadcast(std::span(&length, 1), root);
  std::string result = text;
  result.resize(static_cast<std::size_t>(length));
  group.broadcast(comm::Buffer{result.data(), result.size(), comm::DType::UInt8}, root);
  return result;
}

std::vector<std::string> all_gather_texts(comm::ProcessGroup& group, const std::string& text) {
  const auto ranks = static_cast<std::size_t>(group.world_size());
  const std::int64_t length = static_cast<std::int64_t>(text.size());
  const std::vector<std::int64_t> lengths = all_gather_values(group, length);
  const auto block = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::string mine = text;
  mine.resize(block);
  std::string all(block * ranks, '\0');
  group.all_gather(comm::ConstBuffer(mine.data(), block, comm::DType::UInt8),
                   comm::Buffer{all.data(), all.size(), comm::DType::UInt8});
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks; ++r) texts.push_back(all.substr(r * block, static_cast<std::size_t>(lengths[r])));
  return texts;
}

}  // namespace tutti::trainer
