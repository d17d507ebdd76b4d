// Activations as modules. They hold no parameters, but take a place in a Sequential's numbering.
#pragma once

#include <tutti/nn/module.h>

namespace tutti::nn {

/// max(x, 0), element-wise. Directly after a Linear in a Sequential it costs nothing: sequential.h.
class Relu : public Module {
 public:
  Variable forward(const Variable& input) override;
  std::string describe() const override { return "ReLU()"; }
};

}  // namespace tutti::nn
