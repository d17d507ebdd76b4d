#include <tutti/nn/dropout.h>
#include <tutti/nn/sample_keys.h>
#include <tutti/tensor/autograd/functions.h>
#include <tutti/tensor/keyed_stream.h>

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
  const std::int64_t rows = input.shape()[0];
  const auto* keys = SampleKeys::current(describe(), rows).data<std::int64_t>();
  Tensor factors = Tensor::empty({rows});
  for (std::int64_t i = 0; i < rows; ++i) {
    const bool keep = tensor::KeyedStream(static_cast<std::uint64_t>(keys[i]), layer_).uniform() >= p_;
    factors.data<float>()[i] = keep ? static_cast<float>(1 / (1 - p_)) : 0.0F;
  }
  return tensor::scale_rows(input, factors.to(input.data().device()));
}

std::string StochasticDepth::describe() const { return with_probability("StochasticDepth", p_); }

}  // namespace tutti::nn
