#include <tutti/trainer/data_parallel/gradient_exchange.h>

#include <cstdint>

namespace tutti::trainer {

tensor::Tensor GradientExchange::bucket_memory(comm::ProcessGroup& group, std::size_t count, tensor::DType dtype) {
  const auto memory = group.allocate(count * tensor::size_of(dtype));
  return tensor::Tensor::over(memory.data(), memory.memory, {static_cast<std::int64_t>(count)}, dtype);
}

}  // namespace tutti::trainer
