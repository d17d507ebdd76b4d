#include <tutti/tools/run/gpus.h>
#include <tutti/tools/run/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

namespace tutti::tools {

int visible_gpus() {
  int count = 0;
  if (const char* list = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::istringstream entries(list);
    // As CUDA does: an entry that names no device ends the list.
    for (std::string entry; std::getline(entries, entry, ',') && !entry.empty() && entry[0] != '-';) ++count;
    return count;
  }
  constexpr std::string_view kPrefix = "nvidia";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && parse_number(std::string_view(name).substr(kPrefix.size()))) ++count;
  }
  return count;
}

}  // namespace tutti::tools
