#include <tutti/nn/shared_batch.h>

#include <set>

namespace tutti::nn {
namespace {

template <typename Layer>
std::vector<Layer*> layers_of(const Module& model) {
  std::vector<Layer*> layers;
  const_cast<Module&>(model).apply([&](Module& module) {
    if (auto* layer = dynamic_cast<Layer*>(&module)) layers.push_back(layer);
  });
  return layers;
}

}  // namespace

std::vector<BatchNorm2d*> batch_norm_layers(const Module& model) { return layers_of<BatchNorm2d>(model); }

std::vector<Linear*> large_linear_layers(const Module& model, std::int64_t samples) {
  std::vector<Linear*> layers = layers_of<Linear>(model);
  std::erase_if(layers, [samples](Linear* layer) {
    const tensor::Shape& weight = layer->weight().shape();
    return samples * (weight[0] + weight[1]) >= 2 * weight.numel();
  });
  return layers;
}

void leave_shared_batch(const Module* model) {
  if (model == nullptr) return;
  for (BatchNorm2d* layer : layers_of<BatchNorm2d>(*model)) layer->share_batch_with(nullptr);
  for (Linear* layer : layers_of<Linear>(*model))
    if (layer->shares_batch()) layer->share_batch_with(nullptr);
}

std::vector<bool> have_whole_gradients(const Module& model) {
  std::set<Variable::Impl*> weights;
  for (Linear* layer : layers_of<Linear>(model))
    if (layer->shares_batch()) weights.insert(layer->weight().impl().get());
  std::vector<bool> result;
  for (const auto& [name, parameter] : model.named_parameters())
    result.push_back(weights.contains(parameter.impl().get()));
  return result;
}

}  // namespace tutti::nn
