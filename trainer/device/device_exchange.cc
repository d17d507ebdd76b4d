#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/side_stream.h>
#include <tutti/trainer/device/device_all_reduce.h>
#include <tutti/trainer/device/device_exchange.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti::trainer {
namespace {

class DeviceExchange : public GradientExchange {
 public:
  DeviceExchange(comm::ProcessGroup& group, const ExchangePlan& plan, tensor::Device device)
      : group_(group.split(0, group.rank())),
        all_reduce_(make_device_all_reduce(*group_, device)),
        device_(device),
        stream_(device),
        states_(plan.buckets.size()),
        worker_([this](const std::stop_token& stop) { work(stop); }) {}

  tensor::Tensor bucket_memory(comm::ProcessGroup& /*group*/, std::size_t count, tensor::DType dtype) override {
    return tensor::Tensor::empty({static_cast<std::int64_t>(count)}, dtype, device_);
  }

  void begin(std::size_t bucket, tensor::Tensor& gradients) override {
    Task task{bucket, gradients, stream_.current_point()};
    std::unique_lock lock(mutex_);
    states_[bucket] = {};
    if (bucket + 1 == states_.size()) {
      changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
      lock.unlock();
      sum(task);
    } else {
      queue_.push_back(std::move(task));
      changed_.notify_all();
    }
  }

  void finish(std::size_t bucket, tensor::Tensor& /*gradients*/) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return states_[bucket].done; });
    if (states_[bucket].error) std::rethrow_exception(states_[bucket].error);
  }

  void abandon() noexcept override {
    try {
      group_->abort("a training step was given up");
    } catch (...) {  // the group is of no use then either
    }
    std::unique_lock lock(mutex_);
    queue_.clear();
    changed_.wait(lock, [this] { return !busy_; });
  }

  bool sums_elementwise() const override { return false; }  // its memory is not the host's, where riders are read
  std::string name() const override { return "device all_reduce (" + all_reduce_->way() + ")"; }

 private:
  struct Task {
    std::size_t bucket;
    tensor::Tensor gradients;
    /// Where they are complete. Waited for when the worker comes to them: the stream would wait for all at once.
    std::shared_ptr<const tensor::cuda::Event> complete;
  };
  struct State {
    bool done = false;
    std::exception_ptr error;
  };

  /// Returns when the sum is there: whoever waits for it may go on in any stream.
  void sum(Task& task) {
    State result{.done = true, .error = nullptr};
    try {
      const tensor::cuda::SideStream::Scope scope(stream_);
      stream_.follow(*task.complete);
      all_reduce_->sum(task.gradients);
    } catch (const std::exception& error) {
      result.error = std::current_exception();
      group_->abort(error.what());  // or the others' next bucket would meet another one of this rank's
    }
    const std::scoped_lock lock(mutex_);
    states_[task.bucket] = result;
    changed_.notify_all();
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !queue_.empty(); })) {
      if (stop.stop_requested()) return;
      Task task = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      sum(task);
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::unique_ptr<comm::ProcessGroup> group_;
  std::unique_ptr<DeviceAllReduce> all_reduce_;
  const tensor::Device device_;
  tensor::cuda::SideStream stream_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Task> queue_;
  std::vector<State> states_;
  bool busy_ = false;
  std::jthread worker_;  // last: it uses all of the above
};

}  // namespace

std::unique_ptr<GradientExchange> make_device_exchange(comm::ProcessGroup& group, const ExchangePlan& plan,
                                                       tensor::Device device) {
  return std::make_unique<DeviceExchange>(group, plan, device);
}

}  // namespace tutti::trainer
