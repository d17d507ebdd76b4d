// What an optimizer asks of a device: one step over many parameters at once, so that a GPU does it in one launch. The
// rules, with their sources, stand in nn/optim/; an update of an element never depends on others.
#pragma once

#include <cstdint>

namespace tutti::tensor {

/// One parameter, its gradient and what the optimizer keeps of it: `count` floats each on the same device.
struct UpdatedParameter {
  float* values = nullptr;
  float* gradient = nullptr;
  float* first = nullptr;   // sgd: momentum buffer, or null; adam: m; adadelta: mean square
  float* second = nullptr;  // adam: v; adadelta: mean squared change
  std::int64_t count = 0;
  float rate = 0;   // sgd: what the momentum buffer takes of the gradient; adam: learning_rate / (1 - beta1^t)
  float scale = 0;  // adam: 1 / sqrt(1 - beta2^t)
};

struct SgdRule {
  float learning_rate;
  float weight_decay;
  float momentum;
  bool nesterov;
};

struct AdamRule {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float epsilon;
  float weight_decay;  // added to the gradient
  float keep;          // what the decoupled weight decay leaves of a parameter
};

struct AdadeltaRule {
  float learning_rate;
  float rho, one_minus_rho;
  float epsilon;
  float weight_decay;
};

}  // namespace tutti::tensor
