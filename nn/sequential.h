// Sequential: modules one after another, named "0", "1", ... as in PyTorch.
#pragma once

#include <tutti/nn/module.h>

#include <memory>
#include <vector>

namespace tutti::nn {

class TakesActivation;

/// A Linear, Conv2d or BatchNorm2d directly followed by a ReLU runs as one operation (the ReLU while the sums are still
/// in registers). Names, results and gradients are those of the two.
class Sequential : public Module {
 public:
  /// Throws std::invalid_argument, with the position, for a null module.
  explicit Sequential(const std::vector<std::shared_ptr<Module>>& modules);

  Variable forward(const Variable& input) override;
  std::string describe() const override;  // "Sequential(Flatten(), Linear(784, 50), ReLU())"

 private:
  // One call: either `module`, or `fused` with the ReLU after it.
  struct Step {
    std::shared_ptr<Module> module;
    std::shared_ptr<TakesActivation> fused;
  };

  std::vector<std::shared_ptr<Module>> modules_;
  std::vector<Step> steps_;
};

}  // namespace tutti::nn
