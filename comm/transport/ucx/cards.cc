// Which InfiniBand and RoCE cards have a port that is up, as the kernel tells it under /sys.
#include <glob.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>

#include <filesystem>
#include <fstream>

namespace tutti::comm {

std::vector<std::string> cards_that_are_up(const std::vector<std::string>& interfaces, const std::string& sys) {
  std::vector<std::string> folders;
  for (const std::string& interface : interfaces) folders.push_back("/class/net/" + interface + "/device/infiniband");
  if (interfaces.empty()) folders.emplace_back("/class/infiniband");
  std::vector<std::string> cards;
  for (const std::string& folder : folders) {
    glob_t found{};
    ::glob((sys + folder + "/*/ports/*/state").c_str(), 0, nullptr, &found);
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      const std::filesystem::path port = std::filesystem::path(found.gl_pathv[i]).parent_path();
      std::string state;  // "4: ACTIVE"
      std::getline(std::ifstream(port / "state"), state);
      if (state.ends_with("ACTIVE"))
        cards.push_back(port.parent_path().parent_path().filename().string() + ":" + port.filename().string());
    }
    ::globfree(&found);
  }
  return cards;
}

}  // namespace tutti::comm
