// The addresses of this host by which ranks of other hosts shall reach this one.
//
// choose_addresses() is a function of what it is given, so that any host can be written down in a test. The others ask
// the kernel; they send nothing. Thread-safety: all may be called from any thread. Internal to comm.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::comm {

/// One address of one interface.
struct InterfaceAddress {
  enum class Kind { Ordinary, Loopback, Virtual };  // Virtual: of containers or virtual machines of this host

  std::string interface {};
  std::string address{};  // a number
  int prefix = 0;         // "/24"
  bool up = true;         // and its cable, if it has one, is plugged in
  Kind kind = Kind::Ordinary;
  int megabits = 0;  // per second; 0: not known
};

/// Of all interfaces, in the kernel's order.
std::vector<InterfaceAddress> interface_addresses();

struct AddressQuestion {
  std::vector<InterfaceAddress> interfaces{};
  std::string towards_store{};  // this end of the connection to the store, "" if there is none: a way that works
  std::string default_route{};  // default_route_address()
  std::string wanted{};         // by the user: "eth0", "ib*", "10.1.0.0/16"; "" = any
  std::string wanted_by{};      // where that was said, for texts
  bool several_hosts = true;    // false: all ranks are on this one
};

struct ChosenAddress {
  std::string address;
  std::string interface;
  std::string why;
};

struct AddressChoice {
  std::vector<ChosenAddress> chosen;  // to publish, best first; never empty
  std::string slow;                   // a warning, if a faster interface is there than the best; else ""

  /// "10.0.0.2 (eth0: it reached the store), 10.1.0.2 (ib0: also up)".
  std::string text() const;
};

/// The interface of the connection to the store first, as it is known to work; then that of the default route; then the
/// others, fast ones first, at most four in all. With `wanted` only what fits it. Between hosts never a loopback
/// address (unless there is no other, which the rendezvous refuses), nor one of a link without cable, nor, unless the
/// store was reached by it, of a bridge or a container's cable: every host has these, often with the same address.
/// Throws InvalidArgument, listing what there is, if nothing fits `wanted`.
AddressChoice choose_addresses(const AddressQuestion& question);

/// The address that this host's route to `host` (a number) leaves from; "" if it has none.
std::string route_source(const std::string& host);

/// The address that this host's default route leaves from; "" if it has no route to other hosts.
std::string default_route_address();

/// The address by which ranks of one host reach each other: "127.0.0.1", or "::1" where `interfaces` have only that.
std::string loopback_address(const std::vector<InterfaceAddress>& interfaces = interface_addresses());

/// True for "127.1.2.3", "::1".
bool is_loopback_address(std::string_view address);

/// The address of "10.0.0.2:4000" or "[fd00::2]:4000".
std::string address_of_endpoint(std::string_view endpoint);

/// What an error of connect(2) mostly means at a rendezvous; "" for those whose text says it.
std::string_view connect_hint(int error_number);

}  // namespace tutti::comm
