// The process that listens on a port, found as by ss(8): socket inode from /proc/net/tcp*, then its descriptor.
#include <tutti/comm/store/listen.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace tutti::comm {
namespace {

namespace fs = std::filesystem;

constexpr char kListenState[] = "0A";

void collect_inodes(const char* table, std::uint16_t port, std::set<std::string>& inodes) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // the heading
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
    fields >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> uid >> timeout >> inode;
    const std::size_t colon = local.rfind(':');
    if (!fields || state != kListenState || colon == std::string::npos) continue;
    unsigned found_port = 0;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), found_port, 16);
    if (found_port == port) inodes.insert("socket:[" + inode + "]");
  }
}

bool holds_one_of(const fs::path& descriptors, const std::set<std::string>& inodes) {
  std::error_code ignored;
  for (fs::directory_iterator entry(descriptors, ignored), end; entry != end; entry.increment(ignored)) {
    if (ignored) return false;
    if (inodes.contains(fs::read_symlink(entry->path(), ignored).string())) return true;
  }
  return false;
}

std::string program_name(const fs::path& process) {
  std::ifstream file(process / "comm");
  std::string name;
  std::getline(file, name);
  return name.empty() ? "unknown program" : name;
}

}  // namespace

std::string port_holder(std::uint16_t port) {
  std::set<std::string> inodes;
  collect_inodes("/proc/net/tcp", port, inodes);
  collect_inodes("/proc/net/tcp6", port, inodes);
  if (inodes.empty()) return {};
  std::error_code ignored;
  for (fs::directory_iterator entry("/proc", ignored), end; entry != end; entry.increment(ignored)) {
    if (ignored) return {};
    const std::string pid = entry->path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (holds_one_of(entry->path() / "fd", inodes)) {
      const std::string self = pid == std::to_string(::getpid()) ? ", this process" : "";
      return "pid " + pid + " (" + program_name(entry->path()) + self + ")";
    }
  }
  return {};
}

}  // namespace tutti::comm
