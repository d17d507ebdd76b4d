// Turns rows of a byte image set into one batch of floats.
#pragma once

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
  /// lengths are not the number of channels or with a zero deviation.
  BatchFill(ImageDataset dataset, const Normalisation& normalisation);

  /// Rows `indices` -> x, float32 (indices.size(), C, H, W), and y. Both must be contiguous with room for that many
  /// rows. Throws std::out_of_range naming an index that the data set does not have. Any number of threads may call it.
  void operator()(std::span<const std::int64_t> indices, float* x, std::int64_t* y) const;

  const ImageDataset& dataset() const { return dataset_; }

 private:
  ImageDataset dataset_;
  const std::uint8_t* images_ = nullptr;  // inside dataset_
  const std::int64_t* labels_ = nullptr;
  std::int64_t channels_ = 0;
  std::int64_t plane_ = 0;    // elements of one channel
  std::vector<float> table_;  // (C, 256), empty without normalisation
};

/// x / 255 for `count` bytes, bit-equal to float division.
void bytes_to_unit(const std::uint8_t* bytes, float* values, std::int64_t count);

}  // namespace tutti::trainer
