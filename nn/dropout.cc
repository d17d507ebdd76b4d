#include <tutti/nn/dropout.h>
#include <tutti/nn/sample_keys.h>
#include <tutti/tensor/autograd/functions.h>

#include <charconv>
#include <stdexcept>

namespace tutti::nn {
namespace {

std::string with_probability(const char* name, double p) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, p, std::chars_format::general, 6).ptr;
  return std::string(name) + "(" + std::string(text, end) + ")";
}

void check_probability(const std::string& layer, double p) {
  if (p >= 0 && p < 1) return;
  throw std::invalid_argument(layer + ": expected a probability of at least 0 and below 1");
}

}  // namespace

Dropout::Dropout(double p, std::uint64_t layer) : p_(p), layer_(layer) { check_probability(describe(), p); }

Variable Dropout::forward(const Variable& input) {
  if (!is_training() || p_ == 0) return input;
  const Tensor& keys = SampleKeys::current(describe(), input.shape()[0]);
  return tensor::dropout(input, p_, keys.to(input.data().device()), layer_);
}

std::string Dropout::describe() const { return with_probability("Dropout", p_); }

StochasticDepth::StochasticDepth(double p, std::uint64_t layer) : p_(p), layer_(layer) {
  check_probability(describe(), p);
}

Variable StochasticDepth::forward(const Variable& input) {
  if (!is_training() || p_ == 0) return input;
  const Tensor& x = input.data();
  const std::int64_t rows = x.shape()[0];
  const Tensor& keys = SampleKeys::current(describe(), rows);
  const Variable ones(Tensor::full({rows}, 1, x.dtype(), x.device()));
  return tensor::scale_rows(input, tensor::dropout(ones, p_, keys.to(x.device()), layer_).data());
}

std::string StochasticDepth::describe() const { return with_probability("StochasticDepth", p_); }

}  // namespace tutti::nn
