#include <tutti/nn/models/families.h>
#include <tutti/nn/models/models.h>

#include <array>
#include <stdexcept>

namespace tutti::nn {
namespace {

using tensor::Mt19937;

struct Recipe {
  std::string_view name;
  std::int64_t classes;  // unless others are asked for; 0: the model has none
  std::shared_ptr<Module> (*make)(std::int64_t classes, Mt19937& generator);
};

template <int kDepth>
std::shared_ptr<Module> resnet(std::int64_t classes, Mt19937& generator) {
  return make_resnet(kDepth, classes, generator);
}

constexpr std::int64_t kDigits = 10;
constexpr std::int64_t kLandUses = 21;

constexpr std::array<Recipe, 10> kRecipes = {{
    {"mlp", kDigits, make_mlp},
    {"autoencoder", 0, [](std::int64_t, Mt19937& generator) { return make_autoencoder(generator); }},
    {"simple_net", kLandUses, make_simple_net},
    {"cnn", kDigits, make_cnn},
    {"lenet5", kDigits, make_lenet5},
    {"resnet18", kLandUses, resnet<18>},
    {"resnet34", kLandUses, resnet<34>},
    {"resnet50", kLandUses, resnet<50>},
    {"resnet101", kLandUses, resnet<101>},
    {"efficientnet_b0", kLandUses, make_efficientnet_b0},
}};

std::shared_ptr<Module> build(const Recipe& recipe, std::uint64_t seed, const ModelOptions& options) {
  if (options.classes < 0 || (options.classes > 0 && recipe.classes == 0)) {
    throw std::invalid_argument("the model " + std::string(recipe.name) + " cannot have " +
                                std::to_string(options.classes) + " classes" +
                                (recipe.classes == 0 ? "; it has none" : ""));
  }
  Mt19937 generator(seed);
  return recipe.make(options.classes > 0 ? options.classes : recipe.classes, generator);
}

}  // namespace

std::shared_ptr<Module> make_model(std::string_view name, std::uint64_t seed, const ModelOptions& options) {
  std::string known;
  for (const Recipe& recipe : kRecipes) {
    if (recipe.name == name) return build(recipe, seed, options);
    known.append(known.empty() ? "" : ", ").append(recipe.name);
  }
  throw std::invalid_argument("there is no model '" + std::string(name) + "'; the models are " + known);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : kRecipes) names.emplace_back(recipe.name);
  return names;
}

}  // namespace tutti::nn
