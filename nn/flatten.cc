#include <tutti/nn/flatten.h>
#include <tutti/tensor/autograd/functions.h>

namespace tutti::nn {

Variable Flatten::forward(const Variable& input) {
  const tensor::Shape& shape = input.shape();
  const bool reorder = shape.rank() == 4 && shape[3] > 1 && shape[1] * shape[2] > 1;
  return tensor::flatten(reorder ? tensor::permute(input, {0, 3, 1, 2}) : input);
}

}  // namespace tutti::nn
