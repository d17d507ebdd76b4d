#include <tutti/nn/flatten.h>
#include <tutti/tensor/autograd/functions.h>

namespace tutti::nn {

Variable Flatten::forward(const Variable& input) { return tensor::flatten(input); }

}  // namespace tutti::nn
