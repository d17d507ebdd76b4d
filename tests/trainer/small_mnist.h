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

/// Writes the two IDX files of one split, with the first `count` samples of `digits`.
inline void write_mnist_split(const std::filesystem::path& folder, Split split, const ImageDataset& digits,
                              std::int64_t count) {
  const std::string name = split == Split::Train ? "train" : "t10k";
  const auto* pixels = digits.images.data<std::uint8_t>();
  std::string images = idx_header(3, {count, 28, 28});
  images.append(reinterpret_cast<const char*>(pixels), static_cast<std::size_t>(count) * 28 * 28);
  std::string labels = idx_header(1, {count});
  for (std::int64_t i = 0; i < count; ++i) labels += static_cast<char>(digits.labels.data<std::int64_t>()[i]);
  replace_file(folder / (name + "-images-idx3-ubyte"), images);
  replace_file(folder / (name + "-labels-idx1-ubyte"), labels);
}

/// Writes the four IDX files of `train` and `test` generated digits into `folder`.
inline void write_small_mnist(const std::filesystem::path& folder, std::int64_t train, std::int64_t test) {
  std::filesystem::create_directories(folder);
  for (const auto& [split, count] : {std::pair(Split::Train, train), {Split::Test, test}}) {
    write_mnist_split(folder, split, generate_digits(split, 0, count), count);
  }
}

}  // namespace tutti::trainer
