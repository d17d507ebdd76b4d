#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/keyed_stream.h>
#include <tutti/tools/examples/toy.h>

#include <cmath>
#include <numbers>

namespace tutti::examples {

ToyModel::ToyModel(std::uint64_t seed) {
  tensor::Mt19937 generator(seed);
  net1_ = register_module("net1", std::make_shared<nn::Linear>(10, 10, generator));
  net2_ = register_module("net2", std::make_shared<nn::Linear>(10, 5, generator));
}

tensor::Variable ToyModel::forward(const tensor::Variable& input) {
  return net2_->forward(net1_->forward(input, tensor::Activation::Relu));
}

tensor::Tensor randn(std::int64_t first, const tensor::Shape& shape, std::uint64_t seed) {
  tensor::Tensor values = tensor::Tensor::empty(shape);
  const std::int64_t samples = shape[0];
  const std::int64_t width = samples > 0 ? values.numel() / samples : 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    tensor::KeyedStream stream(tensor::sample_key(seed, 0, static_cast<std::uint64_t>(first + i)), 0);
    float* const sample = values.data<float>() + i * width;
    for (std::int64_t j = 0; j < width; ++j) {  // Box and Muller's method; 1 - u is above 0
      const float radius = std::sqrt(-2 * std::log(1 - stream.uniform()));
      sample[j] = radius * std::cos(2 * std::numbers::pi_v<float> * stream.uniform());
    }
  }
  return values;
}

std::vector<tensor::Variable> parameters_of(const nn::Module& model) {
  std::vector<tensor::Variable> parameters;
  for (const auto& [name, parameter] : model.named_parameters()) parameters.push_back(parameter);
  return parameters;
}

}  // namespace tutti::examples
