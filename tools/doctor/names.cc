#include <tutti/comm/base/deadline.h>
#include <tutti/comm/wire/socket.h>
#include <tutti/tools/doctor/host_checks.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace tutti::doctor {
namespace {

constexpr std::chrono::seconds kPatience{5};
constexpr double kSlowSeconds = 1.0;

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string in_ms(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, " (%.1f ms)", 1e3 * seconds);
  return text;
}

Finding slow(const std::string& what, const LookUp& found) {
  return {what, joined(found.addresses) + in_ms(found.seconds), Verdict::Warn,
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
    return {what, host_name + " is " + joined(found.addresses) + " to this host itself", Verdict::Warn,
            "Tutti does not use it; MPI and PyTorch (gloo) may send it to other hosts, which then cannot connect: in "
            "/etc/hosts give " +
                host_name + " this host's real address in place of " + found.addresses.front()};
  if (found.seconds > kSlowSeconds) return slow(what, found);
  return {what, host_name + " is " + joined(found.addresses) + in_ms(found.seconds)};
}

Finding check_localhost(const LookUp& found) {
  if (!found.addresses.empty() && std::all_of(found.addresses.begin(), found.addresses.end(), is_loopback))
    return {"localhost", joined(found.addresses)};
  return {"localhost", found.addresses.empty() ? "is not known: " + found.error : "is " + joined(found.addresses),
          Verdict::Fail, "write the line '127.0.0.1 localhost' into /etc/hosts"};
}

Finding check_master(const std::string& master, const LookUp& found) {
  const std::string what = "MASTER_ADDR";
  if (found.addresses.empty())
    return {what, master + " is not known here: " + found.error, Verdict::Fail,
            "set MASTER_ADDR to the address of rank 0's host as a number"};
  if (found.seconds > kSlowSeconds) return slow(what, found);
  return {what, master + " is " + joined(found.addresses)};
}

}  // namespace

LookUp look_up(const std::string& name) {
  const auto begin = std::chrono::steady_clock::now();
  LookUp result;
  for (const auto& endpoint : comm::resolve_within(name, 1, comm::Deadline::after(kPatience), result.error))
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

}  // namespace tutti::doctor
