#include <poll.h>
#include <sys/socket.h>
#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/listen.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/doctor/host_checks.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace tutti::doctor {
namespace {

constexpr std::chrono::milliseconds kPatience{2000};
constexpr int kFewPorts = 4096;
constexpr int kShortBacklog = 512;

/// Opens a port, connects to it and sends a byte through; the microseconds that it took. Throws comm::Error.
double connect_to_self(const std::string& address) {
  const comm::Socket listener = comm::listen_on(address, 0);
  const comm::Endpoint endpoint = comm::local_endpoint(listener.get());
  const auto begin = std::chrono::steady_clock::now();
  const comm::Deadline deadline = comm::Deadline::after(kPatience);
  const comm::Socket caller(::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(caller.get(), endpoint.address(), endpoint.length) != 0 && errno != EINPROGRESS)
    comm::throw_errno("connect to " + endpoint.text(), errno);
  if (!comm::poll_until(listener.get(), POLLIN, deadline))
    throw comm::Error(comm::ErrorCode::Timeout, "nothing came through to " + endpoint.text());
  const comm::Socket callee(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  char byte = 'x';
  if (callee.get() < 0 || ::send(callee.get(), &byte, 1, MSG_NOSIGNAL) != 1) comm::throw_errno("accept", errno);
  if (!comm::poll_until(caller.get(), POLLIN, deadline) || ::recv(caller.get(), &byte, 1, 0) != 1)
    throw comm::Error(comm::ErrorCode::Timeout, "a byte did not come through from " + endpoint.text());
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

Finding check_connection(const std::string& what, const std::string& address) {
  try {
    char text[64];
    std::snprintf(text, sizeof text, ": opened, reached and answered in %.0f us", connect_to_self(address));
    return {what, address + text};
  } catch (const comm::Error& error) {
    return {what, address + ": " + error.what(), Verdict::Fail,
            "let this host's firewall accept connections from itself (iptables -L -n, nft list ruleset)"};
  }
}

Finding check_master_port(const std::string& port, bool launched) {
  const int number = std::atoi(port.c_str());
  if (number < 0 || number > 65535 || (number == 0 && port != "0"))
    return {"MASTER_PORT", "'" + port + "'", Verdict::Fail, "set it to a number from 1 to 65535"};
  // A launcher that started us serves there.
  const std::string holder = launched ? "" : comm::port_holder(static_cast<std::uint16_t>(number));
  if (!holder.empty())
    return {"MASTER_PORT", port + " is held by " + holder, Verdict::Warn,
            "if that is not this job's launcher choose another port, or --master-port 0: the system picks a free one"};
  return {"MASTER_PORT", port};
}

}  // namespace

Findings check_ports(const std::string& own_address, const comm::Environment& environment, const System& system) {
  Findings findings{check_connection("port on loopback", comm::loopback_address())};
  if (!own_address.empty()) findings.push_back(check_connection("port on own address", own_address));
  if (const auto port = environment("MASTER_PORT"))
    findings.push_back(check_master_port(*port, environment("RANK").has_value()));
  int first = 0, last = 0;
  std::istringstream(system.read("/proc/sys/net/ipv4/ip_local_port_range")) >> first >> last;
  if (last > 0)
    findings.push_back({"free ports", std::to_string(first) + " to " + std::to_string(last),
                        last - first < kFewPorts ? Verdict::Warn : Verdict::Ok,
                        last - first < kFewPorts ? "sysctl -w net.ipv4.ip_local_port_range='32768 60999'" : ""});
  const std::string backlog = system.read("/proc/sys/net/core/somaxconn");
  if (!backlog.empty()) {
    const bool is_short = std::atoi(backlog.c_str()) < kShortBacklog;
    findings.push_back({"waiting connections", backlog + " at a time (somaxconn)",
                        is_short ? Verdict::Warn : Verdict::Ok,
                        is_short ? "for hundreds of ranks: sysctl -w net.core.somaxconn=4096" : ""});
  }
  return findings;
}

}  // namespace tutti::doctor
