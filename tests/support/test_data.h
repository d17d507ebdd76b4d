// Where tests find real data sets: the folder named by TUTTI_TEST_DATA (it holds mnist/...), else the default that the
// build gives as TUTTI_TEST_DATA_DEFAULT. Tests that need data and get nothing skip themselves and say so.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

namespace tutti::test {

/// The folder, if it exists.
inline std::optional<std::filesystem::path> test_data() {
  const char* variable = std::getenv("TUTTI_TEST_DATA");
  const std::filesystem::path folder = variable != nullptr ? variable : TUTTI_TEST_DATA_DEFAULT;
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) return folder;
  return std::nullopt;
}

}  // namespace tutti::test
