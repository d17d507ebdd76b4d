// Flatten: (N, ...) -> (N, rest).
#pragma once

#include <tutti/nn/module.h>

namespace tutti::nn {

class Flatten : public Module {
 public:
  Variable forward(const Variable& input) override;
  std::string describe() const override { return "Flatten()"; }
};

}  // namespace tutti::nn
