// Which InfiniBand and RoCE cards have a port that is up, as the kernel tells it under /sys.
#include <tutti/comm/transport/ucx/ucx_engine.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace tutti::comm {
namespace {

namespace fs = std::filesystem;

/// The names in a folder; none where there is no such folder.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename());
  std::ranges::sort(names);
  return names;
}

void add_ports_of(const fs::path& card, std::vector<std::string>& cards) {
  for (const std::string& port : names_in(card / "ports")) {
    std::string state;  // "4: ACTIVE"
    std::getline(std::ifstream(card / "ports" / port / "state"), state);
    if (state.ends_with("ACTIVE")) cards.push_back(card.filename().string() + ":" + port);
  }
}

}  // namespace

std::vector<std::string> cards_that_are_up(const std::string& sys) {
  std::vector<std::string> cards;
  const fs::path all = fs::path(sys) / "class/infiniband";
  for (const std::string& card : names_in(all)) add_ports_of(all / card, cards);
  return cards;
}

std::vector<std::string> cards_that_are_up(const std::vector<std::string>& interfaces, const std::string& sys) {
  std::vector<std::string> cards;
  for (const std::string& interface : interfaces) {
    const fs::path all = fs::path(sys) / "class/net" / interface / "device/infiniband";
    for (const std::string& card : names_in(all)) add_ports_of(all / card, cards);
  }
  return cards;
}

}  // namespace tutti::comm
