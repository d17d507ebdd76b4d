#include <tutti/nn/pooling.h>

namespace tutti::nn {
namespace {

std::string to_string(tensor::Pair pair) {
  const std::string height = std::to_string(pair.height);
  return pair.height == pair.width ? height : height + "x" + std::to_string(pair.width);
}

std::string to_string(const tensor::Pool2dOptions& options) {
  std::string text = "(kernel " + to_string(options.kernel);
  if (options.stride != tensor::Pair(0)) text += ", stride " + to_string(options.stride);
  if (options.padding != tensor::Pair(0)) text += ", padding " + to_string(options.padding);
  return text + ")";
}

}  // namespace

std::string MaxPool2d::describe() const { return "MaxPool2d" + to_string(options_); }
std::string AvgPool2d::describe() const { return "AvgPool2d" + to_string(options_); }
std::string AdaptiveAvgPool2d::describe() const { return "AdaptiveAvgPool2d(" + to_string(output_) + ")"; }

}  // namespace tutti::nn
