// StepGraphs: forward, loss and backward of a step as one recorded graph of the GPU, for batches of the shape that
// comes again and again.
//
// The first two steps of a shape run as they are (libraries choose their algorithms, memory is found); the third is
// recorded, and from then on a step is a copy of the batch and one launch. Gradients lie at the same addresses each
// time. They are exchanged when backward has ended: nothing hides the exchange. Models with batch norm over all ranks,
// which meets them, are never recorded. Where recording fails, the log says why, and the steps run as they are.
// Ownership: model and DataParallel must outlive it. Thread-safety: none.
#pragma once

#include <tutti/nn/batch_norm.h>
#include <tutti/trainer/data/loader.h>
#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/objective.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tutti::trainer {

class StepGraphs {
 public:
  StepGraphs(DataParallel& parallel, Objective objective, double label_smoothing);
  ~StepGraphs();
  StepGraphs(const StepGraphs&) = delete;
  StepGraphs& operator=(const StepGraphs&) = delete;

  /// Runs the pass over `batch` with backward's seed `share`, and returns the loss; nothing, and nothing done, if
  /// the pass is to be run without a graph.
  std::optional<tensor::Tensor> run(const Batch& batch, double share);

 private:
  struct Recorded;
  using Key = std::pair<std::int64_t, double>;  // samples, share

  std::vector<std::int64_t> batches() const;
  std::unique_ptr<Recorded> record(const Batch& batch, double share);

  DataParallel& parallel_;
  Objective objective_;
  double label_smoothing_;
  std::vector<nn::BatchNorm2d*> counting_;  // batches, on the host, where no graph does
  bool possible_;
  std::map<Key, int> seen_;
  std::map<Key, std::unique_ptr<Recorded>> recorded_;
};

}  // namespace tutti::trainer
