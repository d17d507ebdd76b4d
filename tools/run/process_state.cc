#include <tutti/tools/run/process_state.h>

#include <fstream>
#include <string>

namespace tutti::tools {

// The state letter of /proc/<pid>/stat: 'T' stopped by a signal, 't' by a debugger.
bool is_stopped(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos || end_of_name + 2 >= line.size()) return false;
  const char state = line[end_of_name + 2];
  return state == 'T' || state == 't';
}

}  // namespace tutti::tools
