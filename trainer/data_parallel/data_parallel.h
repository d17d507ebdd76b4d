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
// every rank. All buckets but the last run asynchronously behind backward; the last one runs in finish().
//
// Averaging: each rank seeds backward with its share of the global batch, so that the plain sum over ranks is the mean
// over all samples, also when ranks have different numbers of them; no extra pass over the data. A rank that has no
// samples at all in a step calls backward_nothing() instead.
//
// Accumulation: backward passes within a no_sync() scope add to the gradients and send nothing; the first one outside
// exchanges the sum.
//
// A world of one takes no bucket, copies nothing and communicates nothing (unless an exchange was asked for).
//
// Ownership: shares the model's parameters; the group must outlive this object. Destroying it in mid-step (an
// exception) aborts the group, because the other ranks' matching operations can no longer be answered. Thread-safety:
// none; the thread that builds it runs forward, backward and finish.
#pragma once

#include <tutti/comm/process_group.h>
#include <tutti/nn/module.h>
#include <tutti/trainer/data_parallel/bucket_plan.h>
#include <tutti/trainer/data_parallel/bucket_timing.h>
#include <tutti/trainer/data_parallel/gradient_exchange.h>
#include <tutti/trainer/data_parallel/riders.h>

#include <memory>
#include <string>
#include <vector>

namespace tutti::trainer {

/// Equal on all ranks.
struct DataParallelOptions {
  BucketLimits buckets{};
  /// Empty: all_reduce, of the GPU's memory where the parameters lie there. One that is given is used by a world of
  /// one, too.
  ExchangeFactory exchange{};
  /// Parameters that backward does not reach on some rank count as zero there. What no rank reaches keeps no gradient,
  /// so that the optimizer leaves it alone. Off: an error names them.
  bool find_unused = false;
  /// Off: all ranks have the same parameters already, and nobody writes to them here.
  bool share_parameters = true;
};

class DataParallel {
 public:
  /// Collective. Throws std::runtime_error, the same on every rank, when the models differ.
  DataParallel(std::shared_ptr<nn::Module> model, comm::ProcessGroup& group, const DataParallelOptions& options = {});
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  nn::Module& model() { return *model_; }
  tensor::Variable forward(const tensor::Variable& input) { return model_->forward(input); }

  /// Runs backward from a loss () with the seed `share`, which makes the sum over ranks the mean over the global batch:
  /// for a mean over this rank's samples it is their part of all samples, for a sum over them 1 / all samples. Throws
  /// std::logic_error for a second backward before finish().
  void backward(tensor::Variable loss, double share);

  /// For a rank without samples: all its gradients are zero, and it takes its part in the exchange.
  void backward_nothing();

  /// By parameter, in registration order: this rank's gradients as they are; undefined where there is none.
  std::vector<tensor::Tensor> gradients() const;
  /// In place of backward(), for gradients that were computed by other means (device/step_graphs.h): they become the
  /// parameters' own, and take their part in the exchange. Their memory is that of gradients() after a backward().
  void accept_gradients(const std::vector<tensor::Tensor>& gradients);

  /// Collective. Returns when every gradient is the sum over ranks. Rethrows the first communication error. A parameter
  /// that backward did not reach is a std::logic_error naming it (see find_unused); the group is aborted then, since
  /// other ranks may wait.
  void finish();

  /// While one exists, backward() adds to this rank's gradients and sends nothing.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(DataParallel& parallel) : parallel_(parallel), before_(parallel.sync_) { parallel_.sync_ = false; }
    ~NoSync() { parallel_.sync_ = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DataParallel& parallel_;
    bool before_;
  };
  NoSync no_sync() { return NoSync(*this); }

  /// Asks all ranks for something (a checkpoint, the end); the question travels with the next step's gradients.
  void ask(Request request) { riders_.ask(request); }
  /// After finish(): how many ranks asked in this step; the same number on every rank.
  int asked(Request request) const { return riders_.asked(request); }

  /// Collective. Gives all ranks rank 0's buffers: running statistics follow each rank's own samples during an epoch,
  /// and evaluation, checkpoints and the ranks' equality need one version of them.
  void share_buffers();

  /// Empty in a world of one without an exchange.
  const std::vector<Bucket>& buckets() const { return plan_.buckets; }
  /// Null where there are no buckets.
  GradientExchange* exchange() { return exchange_.get(); }
  /// By bucket: when it started and what it cost, on average over the steps so far (bucket_timing.h).
  const std::vector<BucketTiming>& bucket_timings() const { return timer_.timings(); }
  /// Of the last step: from the end of its backward to the end of finish().
  double last_wait_seconds() const { return timer_.last_wait_seconds(); }

 private:
  struct BucketState {
    tensor::Tensor memory;    // what the exchange is given
    std::size_t missing = 0;  // gradients that are not final yet in this step
  };

  void share_rank0_parameters();
  void build_buckets(const DataParallelOptions& options);
  void give_gradients_their_places();
  void on_gradient_ready(std::size_t parameter);
  void begin_ready_buckets(std::size_t end);
  void begin_backward();
  void end_backward();
  void hand_out_results();
  void settle_unreached();
  void fail_unreached();
  void forget_what_nobody_used();
  void abandon_step(const std::string& reason) noexcept;

  std::shared_ptr<nn::Module> model_;
  comm::ProcessGroup& group_;
  std::vector<std::pair<std::string, tensor::Variable>> parameters_;
  ExchangePlan plan_;
  std::vector<BucketState> buckets_;
  std::unique_ptr<GradientExchange> exchange_;
  std::vector<std::size_t> bucket_of_;   // by parameter
  std::vector<tensor::Tensor> places_;   // by parameter: its part of a bucket
  std::vector<tensor::Tensor> results_;  // by parameter: where the sum is
  std::vector<bool> ready_;              // by parameter, in this step
  Riders riders_;
  BucketTimer timer_;
  std::size_t next_to_begin_ = 0;
  bool find_unused_ = false;
  bool sync_ = true;
  tensor::Tensor seed_;  // reused: the hot loop allocates nothing
};

}  // namespace tutti::trainer
