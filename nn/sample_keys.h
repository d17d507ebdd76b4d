// SampleKeys: while one exists, this thread's layers that draw at random (Dropout, StochasticDepth) know whose samples
// the rows of their input are.
//
//   SampleKeys scope(batch.keys);       // int64 (N): the bits of each row's sample_key(seed, epoch, index)
//   model.forward(x);                   // row i's masks are drawn from KeyedStream(keys[i], the layer's number)
//
// So a mask depends on the sample and the layer only, never on ranks, threads or batch sizes; a layer that runs twice
// in one forward pass draws the same mask twice. Scopes nest. Not movable; one thread, one scope.
#pragma once

#include <tutti/tensor/tensor.h>

#include <string>

namespace tutti::nn {

class SampleKeys {
 public:
  explicit SampleKeys(tensor::Tensor keys);
  ~SampleKeys();
  SampleKeys(const SampleKeys&) = delete;
  SampleKeys& operator=(const SampleKeys&) = delete;

  /// The innermost scope's keys. Throws std::logic_error saying what to do when there is no scope on this thread, and
  /// std::invalid_argument when there are not `rows` keys; both name `layer`.
  static const tensor::Tensor& current(const std::string& layer, std::int64_t rows);

 private:
  tensor::Tensor keys_;
  const tensor::Tensor* previous_;
};

}  // namespace tutti::nn
