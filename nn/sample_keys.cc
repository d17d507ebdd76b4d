#include <tutti/nn/sample_keys.h>

#include <stdexcept>
#include <utility>

namespace tutti::nn {
namespace {

thread_local const tensor::Tensor* innermost = nullptr;

}  // namespace

SampleKeys::SampleKeys(tensor::Tensor keys) : keys_(std::move(keys)), previous_(innermost) {
  if (!keys_.defined() || keys_.rank() != 1 || keys_.dtype() != tensor::DType::Int64) {
    throw std::invalid_argument(
        "SampleKeys: the keys are " +
        (keys_.defined() ? std::string(tensor::name(keys_.dtype())) + " " + keys_.shape().to_string() : "undefined") +
        ", expected int64 (N)");
  }
  innermost = &keys_;
}

SampleKeys::~SampleKeys() { innermost = previous_; }

const tensor::Tensor& SampleKeys::current(const std::string& layer, std::int64_t rows) {
  if (innermost == nullptr) {
    throw std::logic_error(layer +
                           ": drawing a mask in training needs the samples' keys; put a SampleKeys scope around "
                           "forward, or call train(false) for evaluation");
  }
  if (innermost->numel() != rows) {
    throw std::invalid_argument(layer + ": the input has " + std::to_string(rows) + " rows, SampleKeys holds " +
                                std::to_string(innermost->numel()) + " keys");
  }
  return *innermost;
}

}  // namespace tutti::nn
