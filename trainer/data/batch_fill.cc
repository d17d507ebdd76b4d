#include <tutti/trainer/data/batch_fill.h>

#include <algorithm>
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
                                ", expected contiguous uint8 (N, C, H, W) and int64 (N)");
  }
}

std::vector<float> make_table(const Normalisation& normalisation, std::int64_t channels) {
  if (normalisation.mean.empty() && normalisation.deviation.empty()) {
    return {};
  }
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

void look_up(const std::uint8_t* bytes, const float* table, float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = table[bytes[i]];
  }
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

BatchFill::BatchFill(ImageDataset dataset, const Normalisation& normalisation) : dataset_(std::move(dataset)) {
  check_dataset(dataset_);
  const tensor::Shape& shape = dataset_.images.shape();
  channels_ = shape[1];
  plane_ = shape[2] * shape[3];
  images_ = dataset_.images.data<std::uint8_t>();
  labels_ = dataset_.labels.data<std::int64_t>();
  table_ = make_table(normalisation, channels_);
}

void BatchFill::operator()(std::span<const std::int64_t> indices, float* x, std::int64_t* y) const {
  check_indices(indices, dataset_);
  const std::int64_t row = channels_ * plane_;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::uint8_t* const bytes = images_ + indices[i] * row;
    if (i + 1 < indices.size()) {
      fetch_ahead(images_ + indices[i + 1] * row, row);
    }
    if (table_.empty()) {
      bytes_to_unit(bytes, x, row);
    } else {
      for (std::int64_t c = 0; c < channels_; ++c) {
        look_up(bytes + c * plane_, table_.data() + c * kByteValues, x + c * plane_, plane_);
      }
    }
    *y++ = labels_[indices[i]];
    x += row;
  }
}

}  // namespace tutti::trainer
