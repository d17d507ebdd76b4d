#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/store/listen.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/doctor/checks.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>

namespace tutti::doctor {
namespace {

constexpr std::chrono::seconds kLookUpPatience{5};
constexpr double kSlowSeconds = 1.0;

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

std::string in_ms(double seconds) { return comm::format(" (%.1f ms)", 1e3 * seconds); }

Finding slow(const std::string& what, const LookUp& found) {
  return {what, comm::listed(found.addresses) + in_ms(found.seconds), Verdict::Warn,
          "every look-up of a name takes this long: mend the name servers in /etc/resolv.conf, or give addresses as "
          "numbers"};
}

Finding check_host_name(const std::string& host_name, const LookUp& found) {
  const std::string what = "host name";
  if (found.addresses.empty())
    return {what, host_name + " is not known: " + found.error, Verdict::Warn,
            "Tutti gives other hosts numbers, no names; for programs that look names up write a line 'ADDRESS " +
                host_name + "' into /etc/hosts of every host"};
  if (std::all_of(found.addresses.begin(), found.addresses.end(), is_loopback))
    return {what, host_name + " is " + comm::listed(found.addresses) + " to this host itself", Verdict::Warn,
            "Tutti does not use it; MPI and PyTorch (gloo) may send it to other hosts, which then cannot connect: in "
            "/etc/hosts give " +
                host_name + " this host's real address in place of " + found.addresses.front()};
  if (found.seconds > kSlowSeconds) return slow(what, found);
  return {what, host_name + " is " + comm::listed(found.addresses) + in_ms(found.seconds)};
}

Finding check_localhost(const LookUp& found) {
  if (!found.addresses.empty() && std::all_of(found.addresses.begin(), found.addresses.end(), is_loopback))
    return {"localhost", comm::listed(found.addresses)};
  return {"localhost", found.addresses.empty() ? "is not known: " + found.error : "is " + comm::listed(found.addresses),
          Verdict::Fail, "write the line '127.0.0.1 localhost' into /etc/hosts"};
}

Finding check_master(const std::string& master, const LookUp& found) {
  const std::string what = "MASTER_ADDR";
  if (found.addresses.empty())
    return {what, master + " is not known here: " + found.error, Verdict::Fail,
            "set MASTER_ADDR to the address of rank 0's host as a number"};
  if (found.seconds > kSlowSeconds) return slow(what, found);
  return {what, master + " is " + comm::listed(found.addresses)};
}

std::string described(const comm::InterfaceAddress& own) {
  const std::string speed = own.megabits % 1000 == 0 ? std::to_string(own.megabits / 1000) + " Gbit/s"
                                                     : std::to_string(own.megabits) + " Mbit/s";
  return own.interface + " " + own.address + (own.megabits > 0 ? ", " + speed : "");
}

bool usable(const comm::InterfaceAddress& own) {
  return own.up && own.kind == comm::InterfaceAddress::Kind::Ordinary && !own.address.starts_with("fe80:");
}

Finding check_route(const std::vector<comm::InterfaceAddress>& interfaces, const std::string& route_address) {
  const auto route = std::find_if(interfaces.begin(), interfaces.end(),
                                  [&](const comm::InterfaceAddress& own) { return own.address == route_address; });
  if (route_address.empty() || route == interfaces.end())
    return {"default route", "none", Verdict::Warn,
            "ranks of several hosts find no way by themselves: name the interface with --iface (TUTTI_IFACE)"};
  for (const comm::InterfaceAddress& other : interfaces)
    if (usable(other) && route->megabits > 0 && other.megabits > route->megabits)
      return {"default route", "leaves by " + described(*route) + ", though " + described(other) + " is faster",
              Verdict::Warn, "for traffic between ranks choose it: --iface " + other.interface + " (TUTTI_IFACE)"};
  return {"default route", "leaves by " + route->interface + ", " + route_address};
}

constexpr std::chrono::milliseconds kPatience{2000};
constexpr int kFewPorts = 4096;
constexpr int kShortBacklog = 512;

Finding check_connection(const std::string& what, const std::string& address) {
  try {
    const Answerer answerer(address, what);
    const auto begin = std::chrono::steady_clock::now();
    const std::string answer = call(address, answerer.port(), comm::Deadline::after(kPatience));
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
    if (answer != what) throw comm::Error(comm::ErrorCode::Protocol, "another program answered there");
    return {what, address + comm::format(": opened, reached and answered in %.0f us", taken.count())};
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

LookUp look_up(const std::string& name) {
  const auto begin = std::chrono::steady_clock::now();
  LookUp result;
  for (const auto& endpoint : comm::resolve_within(name, 1, comm::Deadline::after(kLookUpPatience), result.error))
    if (std::find(result.addresses.begin(), result.addresses.end(), endpoint.host()) == result.addresses.end())
      result.addresses.push_back(endpoint.host());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

Findings check_names(const std::string& host_name, const comm::Environment& environment, const Resolver& resolver) {
  Findings findings{check_host_name(host_name, resolver(host_name)), check_localhost(resolver("localhost"))};
  if (const auto master = environment("MASTER_ADDR")) findings.push_back(check_master(*master, resolver(*master)));
  return findings;
}

Findings check_ucx(const System& system) {
  const std::string cards = comm::listed(comm::cards_that_are_up({}, system.root + "/sys"));
  const std::string refusal = comm::ucx_refusal();
  if (cards.empty()) return {{"InfiniBand, RoCE", "no port is up; ranks of several hosts use TCP"}};
  if (refusal.empty()) return {{"InfiniBand, RoCE", cards + ", long payloads between hosts by " + comm::ucx_version()}};
  return {{"InfiniBand, RoCE", cards + " is up, but ranks of several hosts use TCP", Verdict::Warn, refusal}};
}

Findings check_interfaces(const std::vector<comm::InterfaceAddress>& interfaces, const std::string& route_address) {
  std::string list;
  for (const comm::InterfaceAddress& own : interfaces)
    if (usable(own)) list += (list.empty() ? "" : "; ") + described(own);
  if (!list.empty()) return {{"interfaces", list}, check_route(interfaces, route_address)};
  return {{"interfaces", "loopback only", Verdict::Warn,
           "jobs of this host alone will run; for several hosts bring up a network interface"}};
}

Findings check_ports(const std::string& own_address, const comm::Environment& environment, const System& system) {
  Findings findings{check_connection("port on loopback", comm::loopback_address())};
  if (!own_address.empty()) findings.push_back(check_connection("port on own address", own_address));
  if (const auto port = environment("MASTER_PORT"))
    findings.push_back(check_master_port(*port, environment("RANK").has_value()));
  int first = 0, last = 0;
  std::istringstream(system.read("/proc/sys/net/ipv4/ip_local_port_range")) >> first >> last;
  if (last > 0)
    findings.push_back(warned_if(last - first < kFewPorts, "free ports",
                                 std::to_string(first) + " to " + std::to_string(last),
                                 "sysctl -w net.ipv4.ip_local_port_range='32768 60999'"));
  const std::string backlog = system.read("/proc/sys/net/core/somaxconn");
  if (!backlog.empty())
    findings.push_back(warned_if(std::atoi(backlog.c_str()) < kShortBacklog, "waiting connections",
                                 backlog + " at a time (somaxconn)",
                                 "for hundreds of ranks: sysctl -w net.core.somaxconn=4096"));
  return findings;
}

}  // namespace tutti::doctor
