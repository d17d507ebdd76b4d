// DataSearch: the places where data sets are looked for, whatever the set.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tutti::trainer {

/// An empty path is skipped.
struct DataSearch {
  std::filesystem::path explicit_path{};      // --data
  std::filesystem::path tutti_data{};         // $TUTTI_DATA
  std::filesystem::path working_directory{};  // its data/
  std::filesystem::path cache_home{};         // $XDG_CACHE_HOME or ~/.cache; its tutti/

  static DataSearch from_environment(std::filesystem::path explicit_path);

  /// Where the set `name` is looked for when no path is explicit, in order.
  std::vector<std::filesystem::path> usual_places(const std::string& name) const;
};

}  // namespace tutti::trainer
