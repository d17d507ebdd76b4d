#include <arpa/inet.h>
#include <fnmatch.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

namespace tutti::comm {
namespace {

using Kind = InterfaceAddress::Kind;

constexpr std::size_t kMostPublished = 4;
constexpr int kClearlyFaster = 2;  // times

/// "10.1.0.0/16".
struct Network {
  int family = AF_INET;
  std::array<std::uint8_t, 16> bytes{};
  int prefix = 0;

  static std::optional<Network> parse(const std::string& text) {
    const auto slash = text.find('/');
    if (slash == std::string::npos) return std::nullopt;
    Network network;
    const std::string address = text.substr(0, slash);
    network.family = address.find(':') == std::string::npos ? AF_INET : AF_INET6;
    if (::inet_pton(network.family, address.c_str(), network.bytes.data()) != 1) return std::nullopt;
    const char* end = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data() + slash + 1, end, network.prefix);
    const int most = network.family == AF_INET ? 32 : 128;
    if (status != std::errc() || stop != end || network.prefix < 0 || network.prefix > most) return std::nullopt;
    return network;
  }

  bool holds(const std::string& address) const {
    std::array<std::uint8_t, 16> other{};
    if (::inet_pton(family, address.c_str(), other.data()) != 1) return false;
    for (int bit = 0; bit < prefix; ++bit) {
      const auto byte = static_cast<std::size_t>(bit / 8);
      if (((bytes[byte] ^ other[byte]) >> (7 - bit % 8) & 1) != 0) return false;
    }
    return true;
  }
};

bool fits(const InterfaceAddress& candidate, const std::string& wanted) {
  if (const auto network = Network::parse(wanted)) return network->holds(candidate.address);
  return wanted == candidate.address || ::fnmatch(wanted.c_str(), candidate.interface.c_str(), 0) == 0;
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

/// Why an address that nothing asked for is not published; "" if it is.
std::string objection(const InterfaceAddress& candidate) {
  if (candidate.kind == Kind::Loopback) return "no other host reaches it";
  if (!candidate.up) return "down, or no cable";
  if (is_link_local(candidate.address)) return "good on its own link only";
  if (candidate.kind == Kind::Bridge) return "a bridge of virtual machines or containers";
  if (candidate.kind == Kind::Pair) return "of a container or virtual machine";
  return {};
}

std::string reason(const InterfaceAddress& candidate, const AddressQuestion& question) {
  if (candidate.address == question.towards_store) return "it reached the store";
  if (candidate.address == question.default_route) return "the default route";
  return "also up";
}

/// Smaller is better.
int rank_of(const InterfaceAddress& candidate, const AddressQuestion& question) {
  if (candidate.address == question.towards_store) return 0;
  return candidate.address == question.default_route ? 1 : 2;
}

std::vector<InterfaceAddress> best_first(const AddressQuestion& question) {
  std::vector<InterfaceAddress> sorted = question.interfaces;
  std::ranges::stable_sort(sorted, [&](const InterfaceAddress& a, const InterfaceAddress& b) {
    const int rank_a = rank_of(a, question);
    const int rank_b = rank_of(b, question);
    return rank_a != rank_b ? rank_a < rank_b : a.megabits > b.megabits;
  });
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
  const auto add = [&](const InterfaceAddress& one) {
    choice.chosen.push_back({one.address, one.interface, question.wanted_by + "=" + question.wanted});
  };
  bool down = false;
  for (const InterfaceAddress& one : best_first(question)) {
    if (!fits(one, question.wanted) || is_link_local(one.address)) continue;
    if (one.up && choice.chosen.size() < kMostPublished) add(one);
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
    if (objection(one).empty() && one.megabits >= kClearlyFaster * used->megabits &&
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
    std::string against = objection(one);
    const bool proven = one.address == question.towards_store && one.kind != Kind::Loopback;
    if (proven) against.clear();
    if (against.empty() && choice.chosen.size() == kMostPublished) against = "there are better ones";
    if (against.empty()) {
      choice.chosen.push_back({one.address, one.interface, reason(one, question)});
    } else if (one.kind != Kind::Loopback && !is_link_local(one.address)) {  // every host has those
      choice.skipped.push_back({one.address, one.interface, against});
    }
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
  const auto list = [](const std::vector<ChosenAddress>& addresses) {
    std::string text;
    for (const ChosenAddress& one : addresses)
      text += (text.empty() ? "" : ", ") + one.address + " (" + one.interface + ": " + one.why + ")";
    return text;
  };
  return list(chosen) + (skipped.empty() ? "" : "; not " + list(skipped));
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
