#include <tutti/nn/activation.h>
#include <tutti/nn/flatten.h>
#include <tutti/nn/linear.h>
#include <tutti/nn/models/models.h>
#include <tutti/nn/sequential.h>
#include <tutti/tensor/random.h>

#include <array>
#include <span>
#include <stdexcept>

namespace tutti::nn {
namespace {

constexpr std::array<std::int64_t, 3> kMlpWidths = {784, 50, 10};
constexpr std::array<std::int64_t, 5> kAutoencoderWidths = {784, 128, 128, 128, 784};
constexpr std::array<std::int64_t, 6> kSimpleNetWidths = {12288, 512, 128, 64, 32, 21};

// Every model so far: Flatten, then Linear layers of these widths with a ReLU after each, or between them only.
struct Recipe {
  std::string_view name;
  std::span<const std::int64_t> widths;
  bool relu_at_end;
};

constexpr std::array<Recipe, 3> kRecipes = {{
    {"mlp", kMlpWidths, false},
    {"autoencoder", kAutoencoderWidths, true},
    {"simple_net", kSimpleNetWidths, false},
}};

std::shared_ptr<Module> build(const Recipe& recipe, std::uint64_t seed) {
  tensor::Mt19937 generator(seed);
  std::vector<std::shared_ptr<Module>> modules{std::make_shared<Flatten>()};
  for (std::size_t i = 0; i + 1 < recipe.widths.size(); ++i) {
    modules.push_back(std::make_shared<Linear>(recipe.widths[i], recipe.widths[i + 1], generator));
    if (recipe.relu_at_end || i + 2 < recipe.widths.size()) {
      modules.push_back(std::make_shared<Relu>());
    }
  }
  return std::make_shared<Sequential>(modules);
}

}  // namespace

std::shared_ptr<Module> make_model(std::string_view name, std::uint64_t seed) {
  std::string known;
  for (const Recipe& recipe : kRecipes) {
    if (recipe.name == name) {
      return build(recipe, seed);
    }
    known.append(known.empty() ? "" : ", ").append(recipe.name);
  }
  throw std::invalid_argument("there is no model '" + std::string(name) + "'; the models are " + known);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : kRecipes) {
    names.emplace_back(recipe.name);
  }
  return names;
}

}  // namespace tutti::nn
