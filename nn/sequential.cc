#include <tutti/nn/activation.h>
#include <tutti/nn/sequential.h>

#include <stdexcept>

namespace tutti::nn {

Sequential::Sequential(const std::vector<std::shared_ptr<Module>>& modules) : modules_(modules) {
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    if (modules_[i] == nullptr) {
      throw std::invalid_argument("Sequential: module " + std::to_string(i) + " is null");
    }
    register_module(std::to_string(i), modules_[i]);
  }
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    auto layer = std::dynamic_pointer_cast<TakesActivation>(modules_[i]);
    const bool fuse =
        layer != nullptr && i + 1 < modules_.size() && dynamic_cast<const ReLU*>(modules_[i + 1].get()) != nullptr;
    steps_.push_back(fuse ? Step{nullptr, std::move(layer)} : Step{modules_[i], nullptr});
    i += fuse ? 1 : 0;
  }
}

Variable Sequential::forward(const Variable& input) {
  Variable value = input;
  for (const Step& step : steps_) {
    value = step.fused != nullptr ? step.fused->forward(value, tensor::Activation::Relu) : step.module->forward(value);
  }
  return value;
}

std::string Sequential::describe() const {
  std::string text = "Sequential(";
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    text.append(i == 0 ? "" : ", ").append(modules_[i]->describe());
  }
  return text + ")";
}

}  // namespace tutti::nn
