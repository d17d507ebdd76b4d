// Turns rows of a byte image set into one batch of floats, changing each picture on the way if that is asked for.
#pragma once

#include <tutti/trainer/data/augmentation.h>
#include <tutti/trainer/data/dataset.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tutti::trainer {

/// What happens to a byte x of channel c: ((x / 255) - mean[c]) / deviation[c], each step rounded as PyTorch's
/// ToTensor and Normalize round it. Both empty: x / 255 only.
struct Normalisation {
  std::vector<float> mean{};
  std::vector<float> deviation{};
};

class BatchFill {
 public:
  /// Throws std::invalid_argument for a data set whose tensors do not fit together (dataset.h) or a normalisation whose
  /// lengths are not the number of channels or with a zero deviation, or quarter turns of pictures that are not square.
  BatchFill(ImageDataset dataset, const Normalisation& normalisation, const Augmentation& augmentation = {});

  /// Rows `indices` -> x, float32 (indices.size(), H, W, C), and y. Both must be contiguous with room for that many
  /// rows. `keys`: the key of each row, from which its augmentation is drawn; not needed without. Throws
  /// std::out_of_range naming an index that the data set does not have. Any number of threads may call it.
  void operator()(std::span<const std::int64_t> indices, float* x, std::int64_t* y,
                  std::span<const std::int64_t> keys = {}) const;

  const ImageDataset& dataset() const { return dataset_; }

 private:
  ImageDataset dataset_;
  const std::uint8_t* images_ = nullptr;  // inside dataset_
  const std::int64_t* labels_ = nullptr;
  PictureSize size_;
  Augmentation augmentation_;
  std::vector<float> table_;  // (C, 256); empty when x / 255 is all there is to do
};

/// x / 255 for `count` bytes, bit-equal to float division.
void bytes_to_unit(const std::uint8_t* bytes, float* values, std::int64_t count);

}  // namespace tutti::trainer
