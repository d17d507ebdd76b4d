#include <tutti/tools/run/launcher.h>
#include <tutti/tools/run/own_command.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace tutti::tools {

std::optional<std::string> world_size_from_launcher() {
  const char* world_size = std::getenv("WORLD_SIZE");
  if (std::getenv("RANK") == nullptr || world_size == nullptr) return std::nullopt;
  return world_size;
}

std::vector<std::string> own_command() {
  std::ifstream words("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> command;
  for (std::string word; std::getline(words, word, '\0');) command.push_back(word);
  if (command.empty()) throw std::runtime_error("cannot read this program's own command from /proc/self/cmdline");
  command.front() = this_program();
  return command;
}

}  // namespace tutti::tools
