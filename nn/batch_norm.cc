#include <tutti/nn/batch_norm.h>

#include <stdexcept>

namespace tutti::nn {

BatchNorm2d::BatchNorm2d(std::int64_t channels, double momentum, double epsilon)
    : channels_(channels), momentum_(momentum), epsilon_(epsilon) {
  if (channels < 1 || !(momentum >= 0 && momentum <= 1) || !(epsilon > 0)) {
    throw std::invalid_argument(describe() + " with momentum " + std::to_string(momentum) + " and epsilon " +
                                std::to_string(epsilon) +
                                ": expected channels and epsilon above 0 and a momentum from 0 to 1");
  }
  weight_ = register_parameter("weight", Tensor::full({channels}, 1));
  bias_ = register_parameter("bias", Tensor::zeros({channels}));
  running_mean_ = register_buffer("running_mean", Tensor::zeros({channels}));
  running_variance_ = register_buffer("running_var", Tensor::full({channels}, 1));
  batches_ = register_buffer("num_batches_tracked", Tensor::zeros({}, tensor::DType::Int64));
}

Variable BatchNorm2d::forward(const Variable& input) { return forward(input, tensor::Activation::None, {}); }

Variable BatchNorm2d::forward(const Variable& input, tensor::Activation activation) {
  return forward(input, activation, {});
}

Variable BatchNorm2d::forward(const Variable& input, tensor::Activation activation, const Variable& residual) {
  const tensor::Shape& shape = input.shape();
  if (shape.rank() != 4 || shape[3] != channels_) {
    throw std::invalid_argument(describe() + ": the input has shape " + shape.to_string() + ", expected (N, H, W, " +
                                std::to_string(channels_) + ")");
  }
  const tensor::BatchNormOptions options{.training = is_training(),
                                         .momentum = momentum_,
                                         .epsilon = epsilon_,
                                         .activation = activation,
                                         .holders = holders_};
  Variable y = tensor::batch_norm(input, weight_, bias_, running_mean_, running_variance_, options, residual);
  if (is_training()) ++*batches_.data<std::int64_t>();
  return y;
}

std::string BatchNorm2d::describe() const { return "BatchNorm2d(" + std::to_string(channels_) + ")"; }

}  // namespace tutti::nn
