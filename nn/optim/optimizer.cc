#include <tutti/nn/optim/optimizer.h>

namespace tutti::nn {

void Optimizer::zero_grad() {
  for (tensor::Variable& parameter : parameters_) {
    parameter.zero_grad();
  }
}

}  // namespace tutti::nn
