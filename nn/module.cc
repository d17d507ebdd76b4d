#include <tutti/nn/module.h>

#include <algorithm>
#include <stdexcept>

namespace tutti::nn {
namespace {

// A name is one part of a dotted path and names one thing.
template <typename T>
void check_name(const std::string& name, const std::vector<std::pair<std::string, T>>& taken, const char* kind) {
  if (name.empty() || name.find('.') != std::string::npos) {
    throw std::invalid_argument(std::string("module: a ") + kind + " is named '" + name +
                                "', expected a name that is not empty and has no dot");
  }
  if (std::any_of(taken.begin(), taken.end(), [&](const auto& entry) { return entry.first == name; })) {
    throw std::invalid_argument(std::string("module: there is a ") + kind + " named '" + name + "' already");
  }
}

}  // namespace

std::vector<std::pair<std::string, Variable>> Module::named_parameters() const {
  auto all = parameters_;
  for (const auto& [child_name, child] : children_) {
    for (auto& [name, parameter] : child->named_parameters()) {
      all.emplace_back(child_name + "." + name, std::move(parameter));
    }
  }
  return all;
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers() const {
  auto all = buffers_;
  for (const auto& [child_name, child] : children_) {
    for (auto& [name, buffer] : child->named_buffers()) {
      all.emplace_back(child_name + "." + name, std::move(buffer));
    }
  }
  return all;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const auto& [name, parameter] : named_parameters()) {
    count += parameter.data().numel();
  }
  return count;
}

std::shared_ptr<Module> Module::child(std::string_view name) const {
  std::string known;
  for (const auto& [child_name, module] : children_) {
    if (child_name == name) return module;
    known.append(known.empty() ? "" : ", ").append(child_name);
  }
  throw std::invalid_argument(describe() + " has no child '" + std::string(name) + "'" +
                              (known.empty() ? "; it has none at all" : "; it has " + known));
}

void Module::to(tensor::Device device) {
  for (auto& [name, parameter] : parameters_) {
    parameter.move_to(device);
  }
  for (auto& [name, buffer] : buffers_) {
    const bool counter = buffer.dtype() == tensor::DType::Int64;
    if (!counter || device.kind == tensor::Device::Kind::Cpu) buffer.move_to(device);
  }
  for (const auto& [name, module] : children_) {
    module->to(device);
  }
}

void Module::zero_grad() {
  for (auto& [name, parameter] : parameters_) {
    parameter.zero_grad();
  }
  for (const auto& [name, child] : children_) {
    child->zero_grad();
  }
}

void Module::apply(const std::function<void(Module&)>& action) {
  for (const auto& [name, child] : children_) child->apply(action);
  action(*this);
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) {
    child->train(on);
  }
}

Variable Module::register_parameter(std::string name, Tensor initial) {
  check_name(name, parameters_, "parameter");
  return parameters_.emplace_back(std::move(name), Variable(std::move(initial), /*requires_grad=*/true)).second;
}

Tensor Module::register_buffer(std::string name, Tensor initial) {
  check_name(name, buffers_, "buffer");
  return buffers_.emplace_back(std::move(name), std::move(initial)).second;
}

}  // namespace tutti::nn
