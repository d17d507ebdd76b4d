// Makes IDX files, whole and damaged, for the tests of the data sets.
#pragma once

#include <tutti/tests/trainer/temporary_folder.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tutti::trainer {

using Bytes = std::vector<std::uint8_t>;

/// Header (type: unsigned byte) and elements.
inline Bytes idx_bytes(const std::vector<std::uint32_t>& extents, const Bytes& elements) {
  Bytes bytes{0, 0, 8, static_cast<std::uint8_t>(extents.size())};
  for (const std::uint32_t extent : extents) {
    for (const int shift : {24, 16, 8, 0}) {
      bytes.push_back(static_cast<std::uint8_t>(extent >> shift));
    }
  }
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

/// `count` images of 28 x 28; pixel p of image i is (i + p) mod 256.
inline Bytes image_bytes(std::uint32_t count) {
  Bytes pixels;
  for (std::uint32_t i = 0; i < count; ++i) {
    for (std::uint32_t p = 0; p < 28 * 28; ++p) {
      pixels.push_back(static_cast<std::uint8_t>(i + p));
    }
  }
  return idx_bytes({count, 28, 28}, pixels);
}

inline Bytes label_bytes(const Bytes& labels) { return idx_bytes({static_cast<std::uint32_t>(labels.size())}, labels); }

/// One gzip member.
Bytes gzip(const Bytes& content);

inline std::filesystem::path write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace tutti::trainer
