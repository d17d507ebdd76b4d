// A small set in MNIST's file format, so that whole runs take milliseconds and need no real data.
#pragma once

#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/data/digits.h>

#include <filesystem>
#include <string>

namespace tutti::trainer {

inline std::string idx_header(unsigned rank, std::initializer_list<std::int64_t> extents) {
  std::string bytes{0, 0, 8, static_cast<char>(rank)};
  for (const std::int64_t extent : extents) {
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>((extent >> shift) & 255);
  }
  return bytes;
}

/// Writes the four IDX files of `train` and `test` generated digits into `folder`.
inline void write_small_mnist(const std::filesystem::path& folder, std::int64_t train, std::int64_t test) {
  std::filesystem::create_directories(folder);
  for (const auto& [split, count, name] : {std::tuple(Split::Train, train, "train"), {Split::Test, test, "t10k"}}) {
    const ImageDataset digits = generate_digits(split, 0, count);
    const auto* pixels = digits.images.data<std::uint8_t>();
    std::string images = idx_header(3, {count, 28, 28});
    images.append(reinterpret_cast<const char*>(pixels), digits.images.nbytes());
    std::string labels = idx_header(1, {count});
    for (std::int64_t i = 0; i < count; ++i) labels += static_cast<char>(digits.labels.data<std::int64_t>()[i]);
    write_durably(folder / (std::string(name) + "-images-idx3-ubyte"), images);
    write_durably(folder / (std::string(name) + "-labels-idx1-ubyte"), labels);
  }
}

}  // namespace tutti::trainer
