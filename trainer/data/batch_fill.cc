#include <tutti/trainer/data/batch_fill.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace tutti::trainer {
namespace {

using tensor::DType;

constexpr int kByteValues = 256;
// 1/255 = kHigh + kLow to 2^-45. kHigh has 16 significant bits, so that byte * kHigh is exact; adding byte * kLow then
// rounds once. The tests compare all 256 results with true division, which is several times slower.
constexpr float kHigh = 0x1.0102p-8F;
constexpr float kLow = static_cast<float>(1.0 / 255.0 - static_cast<double>(kHigh));

void check_dataset(const ImageDataset& dataset) {
  const bool fits = dataset.images.defined() && dataset.labels.defined() && dataset.images.dtype() == DType::UInt8 &&
                    dataset.labels.dtype() == DType::Int64 && dataset.images.rank() == 4 &&
                    dataset.labels.rank() == 1 && dataset.images.shape()[0] == dataset.labels.shape()[0] &&
                    dataset.images.is_contiguous() && dataset.labels.is_contiguous();
  if (!fits) {
    const auto describe = [](const tensor::Tensor& t) {
      return t.defined() ? std::string(tensor::name(t.dtype())) + " " + t.shape().to_string() : "undefined";
    };
    throw std::invalid_argument("data set '" + dataset.name + "': images are " + describe(dataset.images) +
                                " and labels " + describe(dataset.labels) +
                                ", expected contiguous uint8 (N, H, W, C) and int64 (N)");
  }
}

std::vector<float> make_table(const Normalisation& normalisation, std::int64_t channels) {
  const auto wanted = static_cast<std::size_t>(channels);
  if (normalisation.mean.size() != wanted || normalisation.deviation.size() != wanted) {
    throw std::invalid_argument("normalisation: " + std::to_string(normalisation.mean.size()) + " means and " +
                                std::to_string(normalisation.deviation.size()) + " deviations for images of " +
                                std::to_string(channels) + " channels, expected one of each per channel");
  }
  std::vector<float> table;
  table.reserve(wanted * kByteValues);
  for (std::size_t c = 0; c < wanted; ++c) {
    if (normalisation.deviation[c] == 0) {
      throw std::invalid_argument("normalisation: the deviation of channel " + std::to_string(c) +
                                  " is 0, expected another number");
    }
    for (int byte = 0; byte < kByteValues; ++byte) {
      const float unit = static_cast<float>(byte) / 255.0F;
      table.push_back((unit - normalisation.mean[c]) / normalisation.deviation[c]);
    }
  }
  return table;
}

void check_indices(std::span<const std::int64_t> indices, const ImageDataset& dataset) {
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= dataset.count()) {
      throw std::out_of_range("data set '" + dataset.name + "': the sampler asks for sample " + std::to_string(index) +
                              ", but there are only samples 0 to " + std::to_string(dataset.count() - 1));
    }
  }
}

// A shuffled row is in no cache and no hardware predicts it. A hint only: the address is not read.
void fetch_ahead(const std::uint8_t* bytes, std::int64_t count) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t offset = 0; offset < count; offset += kLine) {
    __builtin_prefetch(bytes + offset);
  }
}

}  // namespace

void bytes_to_unit(const std::uint8_t* bytes, float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto byte = static_cast<float>(static_cast<std::int32_t>(bytes[i]));
    values[i] = byte * kHigh + byte * kLow;
  }
}

BatchFill::BatchFill(ImageDataset dataset, const Normalisation& normalisation, const Augmentation& augmentation)
    : dataset_(std::move(dataset)), augmentation_(augmentation) {
  check_dataset(dataset_);
  const tensor::Shape& shape = dataset_.images.shape();
  size_ = {.height = shape[1], .width = shape[2], .channels = shape[3]};
  images_ = dataset_.images.data<std::uint8_t>();
  labels_ = dataset_.labels.data<std::int64_t>();
  if (augmentation.rotate && size_.height != size_.width) {
    throw std::invalid_argument("data set '" + dataset_.name + "': its pictures are " + std::to_string(size_.height) +
                                " high and " + std::to_string(size_.width) +
                                " wide, but quarter turns need square ones");
  }
  const bool normalised = !normalisation.mean.empty() || !normalisation.deviation.empty();
  if (normalised) {
    table_ = make_table(normalisation, size_.channels);
  } else if (augmentation.any()) {
    const auto channels = static_cast<std::size_t>(size_.channels);
    table_ = make_table({.mean = std::vector<float>(channels, 0), .deviation = std::vector<float>(channels, 1)},
                        size_.channels);
  }
}

void BatchFill::operator()(std::span<const std::int64_t> indices, float* x, std::int64_t* y,
                           std::span<const std::int64_t> keys) const {
  check_indices(indices, dataset_);
  const bool augmented = augmentation_.any();
  if (augmented && keys.size() != indices.size()) {
    throw std::invalid_argument("augmentation of " + std::to_string(indices.size()) + " samples with " +
                                std::to_string(keys.size()) + " keys, expected one for each");
  }
  const std::int64_t row = size_.bytes();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint8_t* const bytes = images_ + indices[i] * row;
    if (i + 1 < indices.size()) {
      fetch_ahead(images_ + indices[i + 1] * row, row);
    }
    if (table_.empty()) {
      bytes_to_unit(bytes, x, row);
    } else {
      const Placement placement =
          augmented ? draw_placement(augmentation_, std::bit_cast<std::uint64_t>(keys[i])) : Placement{};
      place_picture(bytes, size_, placement, table_.data(), x);
    }
    *y++ = labels_[indices[i]];
    x += row;
  }
}

}  // namespace tutti::trainer
