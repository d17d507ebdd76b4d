// The built-in models by name, with the names, shapes and order of parameters and buffers that torch and torchvision
// give them, so that weights travel both ways. Images go in as (N, H, W, C).
//
// | name            | takes        | is                                                          | classes |
// | mlp             | 28 x 28 x 1  | 784-50-10: "1.weight", "1.bias", "3.weight", "3.bias"       | 10 |
// | autoencoder     | 28 x 28 x 1  | 784-128-128-128-784, a ReLU after each                      | none |
// | simple_net      | 64 x 64 x 3  | 12288-512-128-64-32-21                                      | 21 |
// | cnn             | 28 x 28 x 1  | conv1 32c3, conv2 64c3, pool, fc1 128, fc2 10               | 10 |
// | lenet5          | 28 x 28 x 1  | conv1 6c5, pool, conv2 16c5, pool, fc1 120, fc2 84, fc3 10  | 10 |
// | resnet18/34/50/101 | any x 3   | torchvision's                                               | 21 |
// | efficientnet_b0 | any x 3      | torchvision's                                               | 21 |
#pragma once

#include <tutti/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::nn {

struct ModelOptions {
  std::int64_t classes = 0;  // outputs; 0: as many as the table says (torchvision's own number is 1000)
};

/// Initialised as torch (for torchvision's models: as torchvision) would after torch.manual_seed(seed), drawing in the
/// same order: to the bit where values are uniform, to the last bits of log, cos and sin where they are normal. Throws
/// std::invalid_argument listing the known names, and for a number of classes that the model cannot have.
std::shared_ptr<Module> make_model(std::string_view name, std::uint64_t seed, const ModelOptions& options = {});

std::vector<std::string> model_names();

}  // namespace tutti::nn
