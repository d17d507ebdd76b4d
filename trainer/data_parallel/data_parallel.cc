#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/model_check.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace tutti::trainer {

struct DataParallel::BucketState {
  tensor::Tensor memory;
  std::size_t missing = 0;  // gradients that are not final yet in this step
  comm::Work work;          // of this step, once started asynchronously
};

DataParallel::DataParallel(std::shared_ptr<nn::Module> model, comm::ProcessGroup& group, const BucketLimits& limits)
    : model_(std::move(model)), group_(group), parameters_(model_->named_parameters()) {
  if (group_.world_size() == 1) return;
  check_same_model(group_, *model_);
  share_rank0_parameters();
  share_buffers();
  build_buckets(limits);
}

DataParallel::~DataParallel() {
  const bool in_mid_step = std::find(ready_.begin(), ready_.end(), true) != ready_.end();
  if (in_mid_step) abandon_step("a training step was given up before its gradients were exchanged");
  for (auto& [name, parameter] : parameters_) parameter.on_grad_ready(nullptr);  // the model may outlive us
}

void DataParallel::share_rank0_parameters() {
  for (auto& [name, parameter] : parameters_) broadcast(group_, parameter.data(), 0);
}

void DataParallel::share_buffers() {
  if (group_.world_size() == 1) return;
  for (auto& [name, buffer] : model_->named_buffers()) {
    tensor::Tensor shared = buffer;  // same memory as the module's
    broadcast(group_, shared, 0);
  }
}

void DataParallel::build_buckets(const BucketLimits& limits) {
  std::vector<ParameterSize> sizes;
  for (const auto& [name, parameter] : parameters_) {
    sizes.push_back({static_cast<std::size_t>(parameter.data().numel()), parameter.data().dtype()});
  }
  plan_ = plan_buckets(sizes, limits);
  bucket_of_.resize(parameters_.size());
  ready_.resize(parameters_.size());
  for (const Bucket& bucket : plan_) {
    BucketState state;
    const auto memory = group_.allocate(bucket.count * tensor::size_of(bucket.dtype));  // ranks of a host reduce in it
    state.memory =
        tensor::Tensor::over(memory.data(), memory.memory, {static_cast<std::int64_t>(bucket.count)}, bucket.dtype);
    state.missing = bucket.slots.size();
    for (const BucketSlot& slot : bucket.slots) {
      tensor::Variable& parameter = parameters_[slot.parameter].second;
      bucket_of_[slot.parameter] = buckets_.size();
      const auto view =
          state.memory.narrow(0, static_cast<std::int64_t>(slot.offset), static_cast<std::int64_t>(slot.count));
      parameter.set_grad_memory(view.reshape(parameter.shape()));
      parameter.on_grad_ready([this, index = slot.parameter] { on_gradient_ready(index); });
    }
    buckets_.push_back(std::move(state));
  }
}

void DataParallel::backward(tensor::Variable loss, double share) {
  if (share == 1.0) return loss.backward();
  if (!seed_.defined() || seed_.shape() != loss.shape()) {
    seed_ = tensor::Tensor::empty(loss.shape(), loss.data().dtype());
  }
  seed_.fill(share);
  loss.backward(seed_);
}

void DataParallel::on_gradient_ready(std::size_t parameter) {
  if (ready_[parameter]) {
    throw std::logic_error("a second backward before finish(): the gradient of \"" + parameters_[parameter].first +
                           "\" is being exchanged already");
  }
  ready_[parameter] = true;
  if (--buckets_[bucket_of_[parameter]].missing == 0) start_ready_buckets();
}

void DataParallel::start_ready_buckets() {
  while (next_to_start_ + 1 < buckets_.size() && buckets_[next_to_start_].missing == 0) {
    BucketState& bucket = buckets_[next_to_start_];
    bucket.work = group_.all_reduce_async(as_buffer(bucket.memory));
    ++next_to_start_;
  }
}

void DataParallel::finish() {
  if (buckets_.empty()) return;
  check_all_ready();
  group_.all_reduce(as_buffer(buckets_.back().memory));
  for (std::size_t i = 0; i < next_to_start_; ++i) buckets_[i].work.wait();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].missing = plan_[i].slots.size();
    buckets_[i].work = {};
  }
  std::fill(ready_.begin(), ready_.end(), false);
  next_to_start_ = 0;
}

void DataParallel::check_all_ready() {
  if (std::find(ready_.begin(), ready_.end(), false) == ready_.end()) return;
  std::string names;
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    if (!ready_[i]) names += (names.empty() ? "\"" : ", \"") + parameters_[i].first + "\"";
  }
  const std::string text = "rank " + std::to_string(group_.rank()) + ": backward did not reach " + names +
                           "; every parameter must take part in the loss on every rank (remove it from the model, or "
                           "use its output in forward)";
  abandon_step(text);
  throw std::logic_error(text);
}

void DataParallel::abandon_step(const std::string& reason) noexcept {
  const auto ignoring_errors = [](const auto& action) {
    try {
      action();
    } catch (...) {  // pending operations end with the abort, and its text is the reason we were given
    }
  };
  ignoring_errors([&] { group_.abort(reason); });
  for (std::size_t i = 0; i < next_to_start_; ++i) {
    // Bucket memory must not go away under a running operation.
    ignoring_errors([&] { (void)buckets_[i].work.wait_for(group_.timeout()); });
  }
  next_to_start_ = 0;
  std::fill(ready_.begin(), ready_.end(), false);
}

}  // namespace tutti::trainer
