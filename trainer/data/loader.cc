#include <tutti/tensor/keyed_stream.h>
#include <tutti/trainer/data/loader.h>

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace tutti::trainer {

using tensor::DType;
using tensor::Shape;
using tensor::Tensor;

namespace {

void check(const char* option, std::int64_t value, std::int64_t least) {
  if (value < least) {
    throw std::invalid_argument(std::string("loader: ") + option + " is " + std::to_string(value) + ", expected " +
                                std::to_string(least) + " or more");
  }
}

// Memory for one batch, and what became of making it.
struct Slot {
  Tensor x;
  Tensor y;
  Tensor keys;
  bool ready = false;
  std::exception_ptr error;
};

}  // namespace

// Batch number n lives in slot n mod slots. Workers take numbers in order, so the order of batches does not depend on
// which worker is faster. Slots are emptied and filled again in ring order: number n may be made once number n - slots
// was let go.
struct Loader::Impl {
  BatchFill fill;
  std::shared_ptr<const Sampler> sampler;
  LoaderOptions options;
  std::vector<Slot> slots;

  // Written by the caller's thread while no worker is busy.
  std::vector<std::int64_t> indices;
  std::uint64_t epoch = 0;

  // The caller's thread only.
  std::int64_t first_batch = 0;  // of this epoch's batches to be given out
  std::int64_t delivered = 0;    // batches given out in this epoch, those before the first counted
  std::exception_ptr failure;

  std::mutex mutex;  // guards what follows, and Slot::ready and Slot::error
  std::condition_variable_any work_appeared;
  std::condition_variable work_finished;
  std::int64_t batches = 0;    // of the running epoch; only the caller's thread changes it
  std::int64_t next_made = 0;  // the next number a worker takes
  std::int64_t may_make = 0;   // numbers below it have a free slot
  int busy = 0;
  std::vector<std::jthread> workers;  // last: they use the above

  Impl(ImageDataset dataset, std::shared_ptr<const Sampler> sampler_in, const LoaderOptions& options_in);

  std::int64_t batch_rows() const { return std::max<std::int64_t>(1, std::min(options.batch_size, sampler->size())); }
  std::int64_t slot_count() const { return static_cast<std::int64_t>(slots.size()); }
  Slot& slot_of(std::int64_t number) { return slots[static_cast<std::size_t>(number % slot_count())]; }
  std::span<const std::int64_t> indices_of(std::int64_t number) const;
  std::exception_ptr make(std::int64_t number);
  void renew(Slot& slot) const;
  void run_worker(const std::stop_token& stop);
  void pause();
  void wait_for(std::int64_t number);
  void let_go(std::int64_t number);
};

Loader::Impl::Impl(ImageDataset dataset, std::shared_ptr<const Sampler> sampler_in, const LoaderOptions& options_in)
    : fill(std::move(dataset), options_in.normalisation, options_in.augmentation),
      sampler(std::move(sampler_in)),
      options(options_in) {
  check("batch_size", options.batch_size, 1);
  check("threads", options.threads, 0);
  check("prefetch", options.prefetch, 1);
  if (sampler == nullptr) {
    throw std::invalid_argument("loader: no sampler was given");
  }
  // One more than are prefetched: the batch that the caller works on.
  slots.resize(options.threads == 0 ? 1 : static_cast<std::size_t>(options.prefetch) + 1);
  for (int i = 0; i < options.threads; ++i) {
    workers.emplace_back([this](const std::stop_token& stop) { run_worker(stop); });
  }
}

std::span<const std::int64_t> Loader::Impl::indices_of(std::int64_t number) const {
  const auto first = static_cast<std::size_t>(number * options.batch_size);
  const auto count = std::min(static_cast<std::size_t>(options.batch_size), indices.size() - first);
  return std::span(indices).subspan(first, count);
}

// What went wrong, if anything did.
std::exception_ptr Loader::Impl::make(std::int64_t number) {
  Slot& slot = slot_of(number);
  const auto rows = indices_of(number);
  auto* const keys = slot.keys.data<std::int64_t>();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto sample = static_cast<std::uint64_t>(rows[i]);
    keys[i] = std::bit_cast<std::int64_t>(tensor::sample_key(options.seed, epoch, sample));
  }
  try {
    fill(rows, slot.x.data<float>(), slot.y.data<std::int64_t>(), std::span(keys, rows.size()));
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

// A batch that the caller kept is not written to: the slot gets new memory.
void Loader::Impl::renew(Slot& slot) const {
  const auto renewed = [](Tensor& tensor, const Shape& shape, DType dtype) {
    if (!tensor.defined() || tensor.use_count() > 1) tensor = Tensor::empty(shape, dtype);
  };
  const Shape& images = fill.dataset().images.shape();
  renewed(slot.x, {batch_rows(), images[1], images[2], images[3]}, DType::Float32);
  renewed(slot.y, {batch_rows()}, DType::Int64);
  renewed(slot.keys, {batch_rows()}, DType::Int64);
}

void Loader::Impl::run_worker(const std::stop_token& stop) {
  std::unique_lock lock(mutex);
  while (work_appeared.wait(lock, stop, [this] { return next_made < std::min(batches, may_make); })) {
    if (stop.stop_requested()) return;
    const std::int64_t number = next_made++;
    ++busy;
    lock.unlock();
    const std::exception_ptr error = make(number);
    lock.lock();
    slot_of(number).error = error;
    slot_of(number).ready = true;
    --busy;
    work_finished.notify_one();
  }
}

// Afterwards no worker touches slots or indices until more work appears.
void Loader::Impl::pause() {
  std::unique_lock lock(mutex);
  batches = 0;
  work_finished.wait(lock, [this] { return busy == 0; });
}

void Loader::Impl::wait_for(std::int64_t number) {
  std::unique_lock lock(mutex);
  Slot& slot = slot_of(number);
  work_finished.wait(lock, [&slot] { return slot.ready; });
  failure = slot.error;
}

void Loader::Impl::let_go(std::int64_t number) {
  Slot& slot = slot_of(number);
  renew(slot);
  {
    const std::lock_guard lock(mutex);
    slot.ready = false;
    ++may_make;
  }
  work_appeared.notify_one();
}

Loader::Loader(ImageDataset dataset, std::shared_ptr<const Sampler> sampler, const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(std::move(dataset), std::move(sampler), options)) {}

Loader::~Loader() = default;

void Loader::begin_epoch(std::int64_t epoch, std::int64_t first_batch) {
  check("first_batch", first_batch, 0);
  impl_->pause();
  impl_->delivered = impl_->first_batch = first_batch;
  impl_->failure = nullptr;
  impl_->indices = impl_->sampler->indices(epoch);
  impl_->epoch = static_cast<std::uint64_t>(epoch);
  for (Slot& slot : impl_->slots) {
    impl_->renew(slot);
  }
  {
    const std::lock_guard lock(impl_->mutex);
    for (Slot& slot : impl_->slots) {
      slot.ready = false;
      slot.error = nullptr;
    }
    impl_->next_made = first_batch;
    impl_->may_make = first_batch + impl_->slot_count();
    impl_->batches = batches_per_epoch();
  }
  impl_->work_appeared.notify_all();
}

bool Loader::next(Batch& batch) {
  batch = Batch();
  if (impl_->failure != nullptr) {
    std::rethrow_exception(impl_->failure);
  }
  const std::int64_t number = impl_->delivered;
  if (number >= impl_->batches) {
    return false;
  }
  if (impl_->options.threads > 0) {
    if (number > impl_->first_batch) impl_->let_go(number - 1);
    impl_->wait_for(number);
  } else {
    impl_->renew(impl_->slots.front());
    impl_->failure = impl_->make(number);
  }
  if (impl_->failure != nullptr) {
    std::rethrow_exception(impl_->failure);
  }
  const Slot& slot = impl_->slot_of(number);
  const auto count = static_cast<std::int64_t>(impl_->indices_of(number).size());
  const bool full = count == impl_->batch_rows();
  batch.x = full ? slot.x : slot.x.narrow(0, 0, count);
  batch.y = full ? slot.y : slot.y.narrow(0, 0, count);
  batch.keys = full ? slot.keys : slot.keys.narrow(0, 0, count);
  batch.count = count;
  batch.number = number;
  ++impl_->delivered;
  return true;
}

std::int64_t Loader::batches_per_epoch() const {
  return (impl_->sampler->size() + impl_->options.batch_size - 1) / impl_->options.batch_size;
}

const ImageDataset& Loader::dataset() const { return impl_->fill.dataset(); }

}  // namespace tutti::trainer
