// The small model and the made-up data of the course's DDP demos.
#pragma once

#include <tutti/nn/linear.h>
#include <tutti/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti::examples {

/// 10 -> 10, ReLU, -> 5; its layers have the names that PyTorch's ToyModel gives them: "net1" and "net2".
class ToyModel : public nn::Module {
 public:
  explicit ToyModel(std::uint64_t seed);
  tensor::Variable forward(const tensor::Variable& input) override;
  std::string describe() const override { return "ToyModel()"; }

 private:
  std::shared_ptr<nn::Linear> net1_;
  std::shared_ptr<nn::Linear> net2_;
};

/// Normally distributed numbers of the given shape, whose first axis counts samples from number `first` on. Sample 7 is
/// the same whichever rank asks for it, so that a run does not depend on how many ranks share the samples.
tensor::Tensor randn(std::int64_t first, const tensor::Shape& shape, std::uint64_t seed);

/// What an optimizer is made for.
std::vector<tensor::Variable> parameters_of(const nn::Module& model);

}  // namespace tutti::examples
