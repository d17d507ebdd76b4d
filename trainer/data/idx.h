// IDX: the format of the MNIST files. u8 0, u8 0, u8 type, u8 rank, then `rank` big-endian u32 extents, then the
// elements, row-major. Only type 0x08 (unsigned byte) is read, which is what MNIST and its relatives hold. Format:
// http://yann.lecun.com/exdb/mnist/ ("the IDX file format"), at the foot of the page.
//
// Files may be plain or gzip, whatever their names say. The gzip trailer (CRC-32 and length, RFC 1952) is checked.
// Every function throws DataError, one sentence that names the file, the field, what was found and what was expected: a
// file that cannot be opened, a gzip file that is cut short, damaged, or followed by bytes that are not gzip, a header
// that does not fit. No length is believed before it is checked against the file.
#pragma once

#include <tutti/tensor/tensor.h>

#include <cstdint>
#include <filesystem>

namespace tutti::trainer {

/// Rank 3, `height` x `width` -> uint8 (N, height, width, 1).
tensor::Tensor read_idx_images(const std::filesystem::path& path, std::int64_t height, std::int64_t width);

/// Rank 1, as many labels as `expected_count`, each in [0, classes) -> int64 (N).
tensor::Tensor read_idx_labels(const std::filesystem::path& path, std::int64_t expected_count, int classes);

/// Unpacks a gzip file to its end, keeping nothing.
void check_gzip(const std::filesystem::path& path);

}  // namespace tutti::trainer
