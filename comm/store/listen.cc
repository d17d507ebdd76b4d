#include <netinet/in.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/listen.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace tutti::comm {
namespace {

namespace fs = std::filesystem;

constexpr int kBacklog = 4096;  // the kernel caps it at somaxconn

/// Returns 0 or errno.
int try_listen(const Endpoint& endpoint, bool both_families, Socket& result) {
  Socket candidate(::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (candidate.get() < 0) return errno;
  const int on = 1;
  ::setsockopt(candidate.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (endpoint.family() == AF_INET6) {
    const int v6_only = both_families ? 0 : 1;
    ::setsockopt(candidate.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
  }
  if (::bind(candidate.get(), endpoint.address(), endpoint.length) != 0) return errno;
  if (::listen(candidate.get(), kBacklog) != 0) return errno;
  result = std::move(candidate);
  return 0;
}

[[noreturn]] void cannot_listen(const std::string& where, std::uint16_t port, int error_number) {
  std::string text = "cannot listen on " + where + ": " + errno_text(error_number);
  if (error_number == EADDRINUSE) {
    const std::string holder = port_holder(port);
    text += holder.empty() ? "; the process that holds the port cannot be seen from here" : "; it is held by " + holder;
    text += "; choose another port, or 0 to let the kernel pick one";
  } else if (error_number == EADDRNOTAVAIL) {
    text += "; no interface of this host has that address";
  }
  throw Error(ErrorCode::System, text);
}

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

Socket listen_on(const std::string& bind_address, std::uint16_t port) {
  const bool everywhere = bind_address.empty() || bind_address == "::";
  const std::string address = everywhere ? "::" : bind_address;
  std::string resolve_error;
  std::vector<Endpoint> candidates = resolve(address, port, ResolveFor::Binding, resolve_error);
  if (everywhere) {  // a host without IPv6 still has all its IPv4 interfaces
    for (const Endpoint& v4 : resolve("0.0.0.0", port, ResolveFor::Binding, resolve_error)) candidates.push_back(v4);
  }
  if (candidates.empty()) {
    refuse("cannot listen on \"", bind_address, "\": ", resolve_error, "; give an address or a name of this host");
  }
  int first_error = 0;
  for (const Endpoint& endpoint : candidates) {
    Socket result;
    const int error_number = try_listen(endpoint, everywhere, result);
    if (error_number == 0) return result;
    if (first_error == 0) first_error = error_number;
    // Only a missing address family makes the next address as good; a taken port must not move us elsewhere.
    if (error_number != EAFNOSUPPORT && error_number != EADDRNOTAVAIL) break;
  }
  cannot_listen(host_and_port(address, port), port, first_error);
}

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
