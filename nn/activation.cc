#include <tutti/nn/activation.h>

namespace tutti::nn {

Variable ReLU::forward(const Variable& input) { return tensor::relu(input); }
Variable ReLU6::forward(const Variable& input) { return tensor::relu6(input); }
Variable SiLU::forward(const Variable& input) { return tensor::silu(input); }
Variable Sigmoid::forward(const Variable& input) { return tensor::sigmoid(input); }
Variable Tanh::forward(const Variable& input) { return tensor::tanh(input); }

}  // namespace tutti::nn
