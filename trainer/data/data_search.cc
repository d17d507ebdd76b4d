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

}  // namespace tutti::trainer
