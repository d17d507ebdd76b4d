// DataSearch: the places where data sets are looked for, whatever the set.
#pragma once

#include <filesystem>

namespace tutti::trainer {

/// An empty path is skipped.
struct DataSearch {
  std::filesystem::path explicit_path{};      // --data
  std::filesystem::path tutti_data{};         // $TUTTI_DATA
  std::filesystem::path working_directory{};  // its data/
  std::filesystem::path cache_home{};         // $XDG_CACHE_HOME or ~/.cache; its tutti/

  static DataSearch from_environment(std::filesystem::path explicit_path);
};

}  // namespace tutti::trainer
