#include <tutti/trainer/data/data_search.h>

#include <cstdlib>
#include <utility>

namespace tutti::trainer {
namespace {

std::filesystem::path environment_path(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr ? std::filesystem::path(value) : std::filesystem::path();
}

}  // namespace

DataSearch DataSearch::from_environment(std::filesystem::path explicit_path) {
  DataSearch search;
  search.explicit_path = std::move(explicit_path);
  search.tutti_data = environment_path("TUTTI_DATA");
  search.working_directory = ".";
  search.cache_home = environment_path("XDG_CACHE_HOME");
  const std::filesystem::path home = environment_path("HOME");
  if (search.cache_home.empty() && !home.empty()) {
    search.cache_home = home / ".cache";
  }
  return search;
}

std::vector<std::filesystem::path> DataSearch::usual_places(const std::string& name) const {
  std::vector<std::filesystem::path> places;
  if (!tutti_data.empty()) places.push_back(tutti_data / name);
  if (!working_directory.empty()) places.push_back(working_directory / "data" / name);
  if (!cache_home.empty()) places.push_back(cache_home / "tutti" / name);
  return places;
}

}  // namespace tutti::trainer
