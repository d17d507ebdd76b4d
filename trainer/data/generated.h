// What digits.cc and scenes.cc share. Private to trainer/data.
#pragma once

#include <tutti/trainer/data/dataset.h>

#include <stdexcept>

namespace tutti::trainer {

/// A set of square pictures drawn by code: draw(i, pixels) fills picture i and returns its label. Throws
/// std::invalid_argument for a negative count.
template <typename Draw>
ImageDataset generated_dataset(const std::string& kind, Split split, std::int64_t count, std::int64_t side,
                               std::int64_t channels, const Draw& draw) {
  if (count < 0) {
    throw std::invalid_argument("generated " + kind + ": count is " + std::to_string(count) + ", expected 0 or more");
  }
  ImageDataset dataset{.images = tensor::Tensor::empty({count, side, side, channels}, tensor::DType::UInt8),
                       .labels = tensor::Tensor::empty({count}, tensor::DType::Int64),
                       .name = "generated " + kind + " " + name(split),
                       .generated = true};
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint8_t* const pixels = dataset.images.data<std::uint8_t>() + i * side * side * channels;
    dataset.labels.data<std::int64_t>()[i] = draw(i, pixels);
  }
  return dataset;
}

}  // namespace tutti::trainer
