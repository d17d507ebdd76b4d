#include <arpa/inet.h>
#include <fnmatch.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <asio/ip/address.hpp>
#include <asio/ip/network_v4.hpp>
#include <asio/ip/network_v6.hpp>
#include <map>
#include <optional>

namespace tutti::comm {
namespace {

using Kind = InterfaceAddress::Kind;

constexpr std::size_t kMostPublished = 4;
constexpr int kClearlyFaster = 2;  // times

/// Whether `network` is one ("10.1.0.0/16") and holds the address.
bool holds(const std::string& network, const std::string& address) {
  namespace ip = asio::ip;
  asio::error_code no_address, no_v4, no_v6;
  const ip::address candidate = ip::make_address(address, no_address);
  const ip::network_v4 v4 = ip::make_network_v4(network, no_v4);
  const ip::network_v6 v6 = ip::make_network_v6(network, no_v6);
  if (no_address) return false;
  if (candidate.is_v4())
    return !no_v4 && ip::network_v4(candidate.to_v4(), v4.prefix_length()).canonical() == v4.canonical();
  return !no_v6 && ip::network_v6(candidate.to_v6(), v6.prefix_length()).canonical() == v6.canonical();
}

bool fits(const InterfaceAddress& candidate, const std::string& wanted) {
  return wanted == candidate.address || holds(wanted, candidate.address) ||
         ::fnmatch(wanted.c_str(), candidate.interface.c_str(), 0) == 0;
}

/// Good on one link only, and only together with that link's name.
bool is_link_local(const std::string& address) {
  return address.starts_with("fe80:") || address.starts_with("169.254.");
}

std::string listing(const std::vector<InterfaceAddress>& interfaces) {
  std::string text;
  for (const InterfaceAddress& one : interfaces) {
    text += (text.empty() ? "" : ", ") + one.interface + " " + one.address + "/" + std::to_string(one.prefix);
    if (!one.up) text += " (down)";
  }
  return text.empty() ? "none" : text;
}

/// Whether an address that nothing asked for is published: other hosts may reach it, and have another one there.
bool is_for_other_hosts(const InterfaceAddress& candidate) {
  return candidate.kind == Kind::Ordinary && candidate.up && !is_link_local(candidate.address);
}

/// Why an address is published, the best reason first.
constexpr const char* kReasons[] = {"it reached the store", "the default route", "also up"};

/// Index into kReasons.
std::size_t rank_of(const InterfaceAddress& candidate, const AddressQuestion& question) {
  if (candidate.address == question.towards_store) return 0;
  return candidate.address == question.default_route ? 1 : 2;
}

std::vector<InterfaceAddress> best_first(const AddressQuestion& question) {
  std::vector<InterfaceAddress> sorted = question.interfaces;
  std::ranges::stable_sort(
      sorted, {}, [&](const InterfaceAddress& one) { return std::pair(rank_of(one, question), -one.megabits); });
  return sorted;
}

AddressChoice only(const std::string& address, const AddressQuestion& question, const std::string& why) {
  AddressChoice choice;
  const auto known = std::ranges::find(question.interfaces, address, &InterfaceAddress::address);
  choice.chosen.push_back({address, known == question.interfaces.end() ? "?" : known->interface, why});
  return choice;
}

AddressChoice as_wanted(const AddressQuestion& question) {
  AddressChoice choice;
  bool down = false;
  for (const InterfaceAddress& one : best_first(question)) {
    if (!fits(one, question.wanted) || is_link_local(one.address)) continue;
    if (one.up && choice.chosen.size() < kMostPublished)
      choice.chosen.push_back({one.address, one.interface, question.wanted_by + "=" + question.wanted});
    down = down || !one.up;
  }
  if (!choice.chosen.empty()) return choice;
  throw Error(ErrorCode::InvalidArgument,
              question.wanted_by + "=\"" + printable(question.wanted, 100) + "\" " +
                  (down ? "is down, or has no cable" : "fits no interface of this host") +
                  "; there are: " + listing(question.interfaces) +
                  ". Give a name (eth0), a pattern (ib*), an address, or a network (10.1.0.0/16)");
}

std::string speed_text(int megabits) {
  return megabits >= 1000 ? std::to_string(megabits / 1000) + " Gbit/s" : std::to_string(megabits) + " Mbit/s";
}

/// Both speeds must be known: most virtual cards do not report theirs.
std::string warn_if_slow(const AddressChoice& choice, const AddressQuestion& question) {
  const auto used = std::ranges::find(question.interfaces, choice.chosen[0].address, &InterfaceAddress::address);
  if (used == question.interfaces.end() || used->megabits == 0) return {};
  const InterfaceAddress* fastest = nullptr;
  for (const InterfaceAddress& one : question.interfaces)
    if (is_for_other_hosts(one) && one.megabits >= kClearlyFaster * used->megabits &&
        (fastest == nullptr || one.megabits > fastest->megabits))
      fastest = &one;
  if (fastest == nullptr) return {};
  return "ranks of other hosts reach this one by " + used->interface + " (" + speed_text(used->megabits) +
         "), though " + fastest->interface + " (" + fastest->address + ", " + speed_text(fastest->megabits) +
         ") is faster: if it leads to all hosts, set TUTTI_IFACE=" + fastest->interface;
}

}  // namespace

AddressChoice choose_addresses(const AddressQuestion& question) {
  if (!question.wanted.empty()) return as_wanted(question);
  if (!question.several_hosts && !question.towards_store.empty())
    return only(question.towards_store, question, "it reached the store, and all ranks are on this host");
  if (!question.several_hosts)
    return only(loopback_address(question.interfaces), question, "all ranks are on this host");
  AddressChoice choice;
  // The address that reached the store is known to work even where the kernel does not list it, as in some containers.
  if (!question.towards_store.empty() && !is_loopback_address(question.towards_store) &&
      std::ranges::find(question.interfaces, question.towards_store, &InterfaceAddress::address) ==
          question.interfaces.end())
    choice = only(question.towards_store, question, "it reached the store");
  for (const InterfaceAddress& one : best_first(question)) {
    const bool proven = one.address == question.towards_store && one.kind != Kind::Loopback;
    if ((proven || is_for_other_hosts(one)) && choice.chosen.size() < kMostPublished)
      choice.chosen.push_back({one.address, one.interface, kReasons[rank_of(one, question)]});
  }
  if (choice.chosen.empty()) {
    const bool met = !question.towards_store.empty();
    const std::string last = met ? question.towards_store : loopback_address(question.interfaces);
    choice.chosen = only(last, question, "this host has no other").chosen;
  }
  choice.slow = warn_if_slow(choice, question);
  return choice;
}

std::string AddressChoice::text() const {
  std::string text;
  for (const ChosenAddress& one : chosen)
    text += (text.empty() ? "" : ", ") + one.address + " (" + one.interface + ": " + one.why + ")";
  return text;
}

void remove_ambiguous(std::vector<std::vector<std::string>>& endpoints, const std::vector<std::string>& hosts,
                      const std::vector<std::string>& names) {
  struct Owner {
    std::size_t rank;
    std::optional<std::size_t> other;  // of another host
  };
  std::map<std::string, Owner> owners;
  for (std::size_t rank = 0; rank < endpoints.size(); ++rank)
    for (const std::string& endpoint : endpoints[rank]) {
      const auto [known, is_new] = owners.try_emplace(address_of_endpoint(endpoint), Owner{rank, std::nullopt});
      if (!is_new && !known->second.other && hosts[known->second.rank] != hosts[rank]) known->second.other = rank;
    }
  for (std::size_t rank = 0; rank < endpoints.size(); ++rank) {
    const std::vector<std::string> before = endpoints[rank];
    std::erase_if(endpoints[rank], [&](const std::string& endpoint) {
      return owners.at(address_of_endpoint(endpoint)).other.has_value();
    });
    if (before.empty() || !endpoints[rank].empty()) continue;
    const std::string address = address_of_endpoint(before.front());
    const Owner& owner = owners.at(address);
    const std::size_t other = owner.rank == rank || hosts[owner.rank] == hosts[rank] ? *owner.other : owner.rank;
    throw Error(ErrorCode::InvalidArgument,
                "rank " + std::to_string(rank) + " (" + names[rank] + ") can be reached at " + address +
                    " only, which rank " + std::to_string(other) + " on another host (" + names[other] +
                    ") has too, so that it leads each of them to itself: choose the interface of the network between "
                    "the hosts with TUTTI_IFACE (--iface), the same for all ranks");
  }
}

}  // namespace tutti::comm
