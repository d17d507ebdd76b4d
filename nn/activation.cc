#include <tutti/nn/activation.h>
#include <tutti/tensor/autograd/functions.h>

namespace tutti::nn {

Variable Relu::forward(const Variable& input) { return tensor::relu(input); }

}  // namespace tutti::nn
