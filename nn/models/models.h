// The built-in models by name, with PyTorch's parameter names and layouts (a Sequential's parameters are "0.weight",
// ...).
#pragma once

#include <tutti/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::nn {

/// mlp: 784-50-10, names as nn.Sequential(Flatten, Linear, ReLU, Linear): "1.weight", "1.bias", "3.weight", "3.bias".
/// autoencoder: 784-128-128-128-784, a ReLU after each Linear. simple_net: 12288-512-128-64-32-21, ReLU between.
/// Each begins with a Flatten, as mlp does. Initialised by PyTorch's default rule from `seed`, drawing in registration
/// order as torch would after torch.manual_seed(seed). Throws std::invalid_argument listing the known names.
std::shared_ptr<Module> make_model(std::string_view name, std::uint64_t seed);

std::vector<std::string> model_names();

}  // namespace tutti::nn
