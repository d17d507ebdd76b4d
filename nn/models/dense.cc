// Networks of Linear layers: mlp, autoencoder, simple_net.
#include <tutti/nn/activation.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/models/families.h>
#include <tutti/nn/sequential.h>

#include <vector>

namespace tutti::nn {
namespace {

// Flatten, then Linear layers of these widths with a ReLU between them and perhaps after the last.
std::shared_ptr<Module> make_dense(const std::vector<std::int64_t>& widths, bool relu_at_end,
                                   tensor::Mt19937& generator) {
  std::vector<std::shared_ptr<Module>> modules{std::make_shared<Flatten>()};
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    modules.push_back(std::make_shared<Linear>(widths[i], widths[i + 1], generator));
    if (relu_at_end || i + 2 < widths.size()) modules.push_back(std::make_shared<ReLU>());
  }
  return std::make_shared<Sequential>(modules);
}

}  // namespace

std::shared_ptr<Module> make_mlp(std::int64_t classes, tensor::Mt19937& generator) {
  return make_dense({784, 50, classes}, false, generator);
}

std::shared_ptr<Module> make_autoencoder(tensor::Mt19937& generator) {
  return make_dense({784, 128, 128, 128, 784}, true, generator);
}

std::shared_ptr<Module> make_simple_net(std::int64_t classes, tensor::Mt19937& generator) {
  return make_dense({12288, 512, 128, 64, 32, classes}, false, generator);
}

}  // namespace tutti::nn
