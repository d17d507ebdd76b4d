// Flatten: (N, ...) -> (N, rest).
#pragma once

#include <tutti/nn/module.h>

namespace tutti::nn {

/// Images (N, H, W, C) are flattened in PyTorch's order, channel by channel, so that the weights of a Linear behind it
/// fit PyTorch's. For C = 1 and for single pixels that is a view.
class Flatten : public Module {
 public:
  Variable forward(const Variable& input) override;
  std::string describe() const override { return "Flatten()"; }
};

}  // namespace tutti::nn
