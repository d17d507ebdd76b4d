#include <tutti/trainer/data_parallel/data_parallel.h>
#include <tutti/trainer/data_parallel/model_check.h>
#include <tutti/trainer/data_parallel/shared_batch.h>
#include <tutti/trainer/device/device_exchange.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace tutti::trainer {
namespace {

bool on_gpu(tensor::Device device) { return device.kind == tensor::Device::Kind::Cuda; }

/// The slot in a bucket's memory. A gradient is on its parameter's device; the CPU's devices share that memory.
tensor::Tensor place_for(const tensor::Variable& parameter, const BucketSlot& slot, const tensor::Tensor& memory) {
  const auto flat = memory.narrow(0, static_cast<std::int64_t>(slot.offset), static_cast<std::int64_t>(slot.count));
  const tensor::Tensor place = flat.reshape(parameter.shape());
  const tensor::Device device = parameter.data().device();
  if (place.device() == device) return place;
  if (on_gpu(place.device()) || on_gpu(device)) {
    throw std::invalid_argument("DataParallel: a parameter of shape " + parameter.shape().to_string() + " is on " +
                                tensor::name(device) + ", its bucket on " + tensor::name(place.device()) +
                                "; on GPUs: all parameters of a rank on one, no exact sums");
  }
  return place.shared_with(device);
}

}  // namespace

DataParallel::DataParallel(std::shared_ptr<nn::Module> model, comm::ProcessGroup& group,
                           const DataParallelOptions& options)
    : model_(std::move(model)),
      group_(group),
      parameters_(model_->named_parameters()),
      find_unused_(options.find_unused) {
  if (group_.world_size() > 1) {
    check_same_model(group_, *model_);
    if (options.share_parameters) share_rank0_parameters();
    share_buffers();
  }
  if (group_.world_size() > 1 || options.exchange) build_buckets(options);
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

void DataParallel::build_buckets(const DataParallelOptions& options) {
  for (const auto& [name, parameter] : parameters_) plan_.shapes.push_back(parameter.shape());
  plan_.buckets = plan_buckets(parameter_sizes(*model_), options.buckets);
  const tensor::Device device = parameters_.empty() ? tensor::Device() : parameters_.front().second.data().device();
  exchange_ = options.exchange ? options.exchange(group_, plan_)
              : on_gpu(device) ? make_device_exchange(group_, plan_, device)
                               : make_all_reduce_exchange(group_, plan_);
  if (options.exchange && on_gpu(device)) exchange_ = make_copied_exchange(std::move(exchange_), device);
  const std::size_t riders = Riders::count(parameters_.size(), find_unused_);
  std::vector<std::size_t> nbytes;
  for (const Bucket& bucket : plan_.buckets) {
    const bool carries = exchange_->sums_elementwise() && &bucket == &plan_.buckets.back();
    const std::size_t count = bucket.count + (carries ? riders : 0);
    BucketState state;
    state.memory = exchange_->bucket_memory(group_, count, bucket.dtype);
    state.missing = bucket.slots.size();
    if (carries) {
      const auto begin = static_cast<std::int64_t>(bucket.count);
      const tensor::Tensor sums = exchange_->result(buckets_.size());
      const auto seats = [&](const tensor::Tensor& all) {
        return all.narrow(0, begin, static_cast<std::int64_t>(riders));
      };
      riders_ = Riders(seats(state.memory), seats(sums.defined() ? sums : state.memory));
    }
    buckets_.push_back(std::move(state));
    nbytes.push_back(bucket.nbytes());
  }
  if (!exchange_->sums_elementwise()) {
    riders_ = Riders(tensor::Tensor::zeros({static_cast<std::int64_t>(riders)}));
  }
  timer_.reset(nbytes);
  give_gradients_their_places();
}

void DataParallel::give_gradients_their_places() {
  bucket_of_.resize(parameters_.size());
  ready_.resize(parameters_.size());
  places_.resize(parameters_.size());
  results_.resize(parameters_.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const tensor::Tensor sums = exchange_->result(b);
    for (const BucketSlot& slot : plan_.buckets[b].slots) {
      tensor::Variable& parameter = parameters_[slot.parameter].second;
      bucket_of_[slot.parameter] = b;
      places_[slot.parameter] = place_for(parameter, slot, buckets_[b].memory);
      results_[slot.parameter] = sums.defined() ? place_for(parameter, slot, sums) : places_[slot.parameter];
      parameter.set_grad_memory(places_[slot.parameter]);
      parameter.on_grad_ready([this, index = slot.parameter] { on_gradient_ready(index); });
    }
  }
}

void DataParallel::backward(tensor::Variable loss, double share) {
  if (sync_ && !buckets_.empty()) begin_backward();
  if (share == 1.0) {
    loss.backward();
  } else {
    const tensor::Tensor& value = loss.data();
    if (!seed_.defined() || seed_.shape() != value.shape() || seed_.dtype() != value.dtype() ||
        seed_.device() != value.device()) {
      seed_ = tensor::Tensor::empty(value.shape(), value.dtype(), value.device());
    }
    seed_.fill(share);
    loss.backward(seed_);
  }
  if (sync_ && !buckets_.empty()) timer_.backward_ended();
}

void DataParallel::backward_nothing() {
  if (buckets_.empty()) return;
  begin_backward();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    tensor::Variable& parameter = parameters_[i].second;
    if (!parameter.has_grad()) {  // what a no_sync() pass left there stays
      places_[i].fill(0);
      parameter.grad() = places_[i];
    }
    on_gradient_ready(i);
  }
  timer_.backward_ended();
}

std::vector<tensor::Tensor> DataParallel::gradients() const {
  std::vector<tensor::Tensor> result;
  for (const auto& [name, parameter] : parameters_) {
    result.push_back(parameter.has_grad() ? parameter.grad() : tensor::Tensor());
  }
  return result;
}

void DataParallel::accept_gradients(const std::vector<tensor::Tensor>& gradients) {
  if (!buckets_.empty()) begin_backward();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!gradients.at(i).defined()) continue;
    parameters_[i].second.grad() = gradients[i];
    if (!buckets_.empty()) on_gradient_ready(i);
  }
  if (!buckets_.empty()) timer_.backward_ended();
}

void DataParallel::begin_backward() {
  if (std::find(ready_.begin(), ready_.end(), true) != ready_.end()) {
    throw std::logic_error("a second backward before finish(): gradients of this step are being exchanged already");
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const tensor::Variable& parameter = parameters_[i].second;
    if (!parameter.has_grad() || parameter.grad().dtype() == places_[i].dtype()) continue;
    throw std::logic_error("the gradient of \"" + parameters_[i].first +
                           "\" is the last step's still; call zero_grad() before backward");
  }
  timer_.backward_begins();
}

void DataParallel::on_gradient_ready(std::size_t parameter) {
  if (!sync_) return;
  if (ready_[parameter]) {
    throw std::logic_error("a second backward before finish(): the gradient of \"" + parameters_[parameter].first +
                           "\" is being exchanged already");
  }
  ready_[parameter] = true;
  if (--buckets_[bucket_of_[parameter]].missing == 0) begin_ready_buckets(buckets_.size() - 1);
}

/// Begins what is complete, in order, below bucket number `end`.
void DataParallel::begin_ready_buckets(std::size_t end) {
  while (next_to_begin_ < end && buckets_[next_to_begin_].missing == 0) {
    timer_.bucket_begins(next_to_begin_);
    exchange_->begin(next_to_begin_, buckets_[next_to_begin_].memory);
    timer_.bucket_begun(next_to_begin_);
    ++next_to_begin_;
  }
}

/// All gradients of this step are there, or this throws; all buckets have begun.
void DataParallel::end_backward() {
  settle_unreached();
  riders_.board();
  for (std::size_t i = 0; find_unused_ && i < parameters_.size(); ++i) {
    riders_.board_parameter(i, parameters_[i].second.has_grad());
  }
  begin_ready_buckets(buckets_.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) buckets_[b].missing = plan_.buckets[b].slots.size();
  next_to_begin_ = 0;
}

void DataParallel::finish() {
  if (buckets_.empty()) return riders_.arrive(group_);
  end_backward();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    exchange_->finish(b, buckets_[b].memory);
    timer_.bucket_finished(b);
  }
  riders_.arrive(group_);
  hand_out_results();
  if (find_unused_) forget_what_nobody_used();
  timer_.step_ended();
  std::fill(ready_.begin(), ready_.end(), false);
}

/// Where the exchange has memory of its own for them.
void DataParallel::hand_out_results() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].second.has_grad()) parameters_[i].second.grad() = results_[i];
  }
}

/// What backward did not reach: zero if that is welcome, else an error.
void DataParallel::settle_unreached() {
  if (std::find(ready_.begin(), ready_.end(), false) == ready_.end()) return;
  if (!find_unused_) fail_unreached();
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    if (ready_[i]) continue;
    if (!parameters_[i].second.has_grad()) places_[i].fill(0);
    --buckets_[bucket_of_[i]].missing;
  }
}

void DataParallel::fail_unreached() {
  std::string names;
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    if (!ready_[i]) names += (names.empty() ? "\"" : ", \"") + parameters_[i].first + "\"";
  }
  const std::string text = "rank " + std::to_string(group_.rank()) + ": backward did not reach " + names +
                           "; every parameter must take part in the loss on every rank (remove it from the model, use "
                           "its output in forward, or set DataParallelOptions::find_unused)";
  abandon_step(text);
  throw std::logic_error(text);
}

void DataParallel::forget_what_nobody_used() {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    tensor::Variable& parameter = parameters_[i].second;
    if (riders_.ranks_that_reached(i) == 0) {
      parameter.zero_grad();
    } else if (!parameter.has_grad()) {
      parameter.grad() = results_[i];
    }
  }
}

void DataParallel::abandon_step(const std::string& reason) noexcept {
  try {
    group_.abort(reason);
  } catch (...) {  // the group is of no use then either
  }
  exchange_->abandon();  // bucket memory must not go away under a running operation
  next_to_begin_ = 0;
  std::fill(ready_.begin(), ready_.end(), false);
}

}  // namespace tutti::trainer
