// DataParallel: a model whose gradients are summed over all ranks while backward still runs.
//
//   DataParallel parallel(model, group);
//   ...
//   optimizer.zero_grad();
//   auto loss = cross_entropy(parallel.forward(x), y);          // mean over this rank's samples
//   parallel.backward(loss, local_samples / global_samples);    // gradients: the mean over the global batch
//   parallel.finish();
//   optimizer.step();
//
// Construction proves that all ranks built the same model and gives all of them rank 0's parameters and buffers;
// nothing is averaged then. Gradients live in bucket memory (bucket_plan.h), so communication needs no copies. A bucket
// starts when all its gradients are final and all buckets before it have started; the order is therefore the same on
// every rank. All buckets but the last run asynchronously behind backward. The last one runs on the caller's thread in
// finish(): nothing is left to hide it behind, and a thread hand-off would cost more than a small model's whole
// all_reduce.
//
// Averaging: each rank seeds backward with its share of the global batch, so that the plain sum over ranks is the mean
// over all samples, also when ranks have different numbers of them; no extra pass over the data.
//
// A world of one takes no bucket, copies nothing and communicates nothing.
//
// Ownership: shares the model's parameters; the group must outlive this object. Destroying it in mid-step (an
// exception) aborts the group, because the other ranks' matching operations can no longer be answered. Thread-safety:
// none; the thread that builds it runs forward, backward and finish.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>
#include <tutti/trainer/data_parallel/bucket_plan.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti::trainer {

class DataParallel {
 public:
  /// Collective. Throws std::runtime_error, the same on every rank, when the models differ.
  DataParallel(std::shared_ptr<nn::Module> model, comm::ProcessGroup& group, const BucketLimits& limits = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  nn::Module& model() { return *model_; }
  tensor::Variable forward(const tensor::Variable& input) { return model_->forward(input); }

  /// Runs backward from a loss () that is a mean over this rank's samples. `share` = this rank's samples / all ranks'.
  void backward(tensor::Variable loss, double share);

  /// Collective. Returns when every gradient is the sum over ranks. Rethrows the first communication error. A parameter
  /// that backward did not reach is a std::logic_error naming it; the group is aborted then, since other ranks may
  /// wait.
  void finish();

  /// Collective. Gives all ranks rank 0's buffers: running statistics follow each rank's own samples during an epoch,
  /// and evaluation, checkpoints and the ranks' equality need one version of them.
  void share_buffers();

  /// Empty in a world of one.
  const std::vector<Bucket>& buckets() const { return plan_; }

 private:
  struct BucketState;

  void share_rank0_parameters();
  void build_buckets(const BucketLimits& limits);
  void on_gradient_ready(std::size_t parameter);
  void start_ready_buckets();
  void check_all_ready();
  void abandon_step(const std::string& reason) noexcept;

  std::shared_ptr<nn::Module> model_;
  comm::ProcessGroup& group_;
  std::vector<std::pair<std::string, tensor::Variable>> parameters_;
  std::vector<Bucket> plan_;
  std::vector<BucketState> buckets_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<bool> ready_;             // by parameter, in this step
  std::size_t next_to_start_ = 0;
  tensor::Tensor seed_;  // reused: the hot loop allocates nothing
};

}  // namespace tutti::trainer
