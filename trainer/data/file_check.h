// Whole-file checks: the MD5 that data sets are published with, and that a gzip file is whole.
#pragma once

#include <filesystem>
#include <string>

namespace tutti::trainer {

/// 32 lower-case hexadecimal digits. A check against damage in transfer, not against malice. Throws DataError naming
/// the file when it cannot be read.
std::string md5_of_file(const std::filesystem::path& path);

/// Unpacks a .gz to its end, keeping nothing. Throws DataError as FileSource does.
void check_gzip(const std::filesystem::path& path);

}  // namespace tutti::trainer
