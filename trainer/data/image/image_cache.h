// The cache of decoded pictures: one file for each (folder, picture size), so that it never outgrows the data.
//
// The file holds what it was made from (format version, picture size, folder, and of each file its name, size and time)
// and a SHA-256 of all its bytes. What was made from something else is made again silently; what is damaged is an
// error. A file is written under a temporary name and renamed, so that any number of processes may read and write at
// once: a reader sees a whole file, and writers write the same.
//
//   "tuttiimg" | version | picture size | count | bytes of key | key | count x (1: decoded, 0: not) | pixels | SHA-256
//
// Numbers are 64-bit, of the machine that wrote it. Thread-safety: functions without state.
#pragma once

#include <tutti/tensor/tensor.h>
#include <tutti/trainer/data/image/image_folder.h>

#include <filesystem>
#include <optional>
#include <vector>

namespace tutti::trainer {

struct DecodedFolder {
  tensor::Tensor images;  // uint8 (files, size, size, 3); a row that is not decoded is 0
  std::vector<bool> decoded{};
};

/// Where the pictures of `folder` at that size are kept.
std::filesystem::path image_cache_file(const std::filesystem::path& cache_dir, const ImageFolder& folder,
                                       std::int64_t size);

/// Empty when there is no such file, or when it was made from other pictures. Throws DataError naming file and damage.
std::optional<DecodedFolder> read_image_cache(const std::filesystem::path& file, const ImageFolder& folder,
                                              std::int64_t size);

/// Creates the folder if need be. Throws DataError naming the path; the file is then as it was before. Removes what a
/// process that was killed while writing left there a day ago or more.
void write_image_cache(const std::filesystem::path& file, const ImageFolder& folder, std::int64_t size,
                       const DecodedFolder& decoded);

}  // namespace tutti::trainer
