// Loader: batches of floats from a byte image set, in the sampler's order.
//
//   Loader loader(dataset, sampler, {.batch_size = 64});
//   for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
//     loader.begin_epoch(epoch);  // the sampler's new order
//     for (Batch batch; loader.next(batch);) { train(batch.x, batch.y); }
//   }
//
// With `threads` = 0 the caller's thread converts each batch when asked, which for MNIST costs less (about 5 us) than
// waking a thread; with more, worker threads prepare up to `prefetch` batches ahead. The batches are the same either
// way. What is random about a sample is drawn from its key, so that it depends neither on the rank nor on the thread
// that prepares it. Ownership: batches share the loader's memory. Memory is used again once the caller has let go of a
// batch (its tensors' last handle is gone); a batch that the caller keeps stays as it is and costs the loader a new
// allocation. Thread-safety: one thread drives the loader.
#pragma once

#include <tutti/trainer/data/batch_fill.h>
#include <tutti/trainer/data/dataset.h>
#include <tutti/trainer/data/sampler.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tutti::trainer {

struct LoaderOptions {
  std::int64_t batch_size = 64;
  int threads = 0;
  int prefetch = 4;  // batches ready ahead of the caller; with threads > 0
  Normalisation normalisation{};
  Augmentation augmentation{};  // none: pictures as they are
  std::uint64_t seed = 0;       // of the keys, and so of the augmentation
};

struct Batch {
  tensor::Tensor x;         // float32 (count, H, W, C)
  tensor::Tensor y;         // int64 (count)
  tensor::Tensor keys;      // int64 (count): the bits of each row's sample_key(seed, epoch, index in the data set)
  std::int64_t count = 0;   // samples; below batch_size in a last batch only
  std::int64_t number = 0;  // 0, 1, ... within the epoch
};

class Loader {
 public:
  /// Throws std::invalid_argument naming the option and its value, and as BatchFill does.
  Loader(ImageDataset dataset, std::shared_ptr<const Sampler> sampler, const LoaderOptions& options);
  /// Joins the workers; may be called in the middle of an epoch.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Starts `epoch` at its batch number `first_batch` (a run that goes on in mid-epoch), leaving what is left of the
  /// one before. std::invalid_argument for a negative number; beyond the last batch there is none.
  void begin_epoch(std::int64_t epoch, std::int64_t first_batch = 0);

  /// The next batch; false at the end of the epoch (and before the first begin_epoch), with `batch` emptied. Lets go of
  /// what `batch` held first. Throws what went wrong while the batch was made, on this thread whoever made it, and
  /// again at every further call until begin_epoch.
  bool next(Batch& batch);

  std::int64_t batches_per_epoch() const;
  const ImageDataset& dataset() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::trainer
