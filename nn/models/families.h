// The families of built-in models, one function each. Private to models/; models.h is the public face.
#pragma once

#include <tutti/nn/module.h>
#include <tutti/tensor/random.h>

#include <cstdint>
#include <memory>

namespace tutti::nn {

// dense.cc
std::shared_ptr<Module> make_mlp(std::int64_t classes, tensor::Mt19937& generator);
std::shared_ptr<Module> make_autoencoder(tensor::Mt19937& generator);
std::shared_ptr<Module> make_simple_net(std::int64_t classes, tensor::Mt19937& generator);

// cnn.cc
std::shared_ptr<Module> make_cnn(std::int64_t classes, tensor::Mt19937& generator);
std::shared_ptr<Module> make_lenet5(std::int64_t classes, tensor::Mt19937& generator);

// resnet.cc; depth 18, 34, 50 or 101
std::shared_ptr<Module> make_resnet(int depth, std::int64_t classes, tensor::Mt19937& generator);

// efficientnet.cc
std::shared_ptr<Module> make_efficientnet_b0(std::int64_t classes, tensor::Mt19937& generator);

}  // namespace tutti::nn
