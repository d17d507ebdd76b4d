// What tests of models on several ranks share: parameters as numbers, and the error of each rank.
#pragma once

#include <tutti/nn/linear.h>
#include <tutti/nn/module.h>
#include <tutti/tests/support/run_ranks.h>
#include <tutti/tests/trainer/temporary_folder.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tutti::trainer {

using Values = std::vector<float>;

inline std::vector<tensor::Variable> all_parameters(const nn::Module& model) {
  std::vector<tensor::Variable> parameters;
  for (const auto& [name, parameter] : model.named_parameters()) parameters.push_back(parameter);
  return parameters;
}

/// Element i is number(i).
template <typename T = float, typename Number>
tensor::Tensor numbered(const tensor::Shape& shape, const Number& number) {
  std::vector<T> numbers;
  for (std::int64_t i = 0; i < shape.numel(); ++i) numbers.push_back(static_cast<T>(number(i)));
  return tensor::Tensor::from<T>(shape, numbers);
}

inline Values values_of(const tensor::Tensor& tensor) {
  const tensor::Tensor flat = tensor.to(tensor::Device()).to(tensor::DType::Float32).contiguous();
  return {flat.data<float>(), flat.data<float>() + flat.numel()};
}

inline std::vector<Values> values_of(const nn::Module& model) {
  std::vector<Values> values;
  for (const auto& [name, parameter] : model.named_parameters()) values.push_back(values_of(parameter.data()));
  return values;
}

/// Infinity where the sizes differ.
inline float largest_difference(const std::vector<Values>& a, const std::vector<Values>& b) {
  float largest = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i].size() != b[i].size()) return INFINITY;
    for (std::size_t j = 0; j < a[i].size(); ++j) largest = std::max(largest, std::abs(a[i][j] - b[i][j]));
  }
  return largest;
}

/// What each rank's `body` throws; "" for nothing.
inline std::vector<std::string> errors_of(int ranks, const std::function<void(comm::ProcessGroup&)>& body) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  test::run_ranks_to_failure(ranks, [&](comm::ProcessGroup& group) {
    texts[static_cast<std::size_t>(group.rank())] = error_of([&] { body(group); });
  });
  return texts;
}

/// Two layers, of which forward uses one.
class HalfUsed : public nn::Module {
 public:
  HalfUsed() {
    tensor::Mt19937 generator(0);
    used_ = register_module("used", std::make_shared<nn::Linear>(784, 10, generator));
    register_module("idle", std::make_shared<nn::Linear>(40, 40, generator));
  }
  tensor::Variable forward(const tensor::Variable& input) override { return used_->forward(input); }
  std::string describe() const override { return "HalfUsed"; }

 private:
  std::shared_ptr<nn::Linear> used_;
};

}  // namespace tutti::trainer
