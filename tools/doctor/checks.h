// What `tutti doctor` looks at: on the host that it runs on (one source file a kind, one function each), and in a job.
//
// Every function reads, and changes nothing; ports are opened for a moment on loopback and on this host's own address.
// Nothing waits longer than about 5 s (name look-ups, which have a deadline). Thread-safety: may run in any thread.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/store/store.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/comm/wire/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tutti::doctor {

// What is said about one thing: what was looked at, what was found, whether it will do, and what to do. Pure functions.

enum class Verdict { Ok, Warn, Fail };  // Fail: something that a job needs does not work

struct Finding {
  std::string what;  // "host name", "/dev/shm", "ranks 0 and 2: port"
  std::string value;
  Verdict verdict = Verdict::Ok;
  std::string fix{};   // for a warning or a failure: a command, an option, a line to write somewhere
  std::string host{};  // "" = the host that the report is about
};

using Findings = std::vector<Finding>;

/// A warning with its fix if something is `wrong`, else the same without.
Finding warned_if(bool wrong, const std::string& what, const std::string& value, const std::string& fix);

/// The worst of them; Ok for none.
Verdict worst(const Findings& findings);

/// A line for each finding, its fix below it unless the finding before had the same, grouped by host where there are
/// several; at the end what there is of each verdict.
std::string as_text(const Findings& findings);

/// {"verdict": "warn", "findings": [{"what", "value", "verdict", "fix", "host"}]}.
std::string as_json(const Findings& findings);

/// What as_json() wrote. Throws std::runtime_error for anything else.
Findings from_json(const std::string& text);

/// The files of a system, below `root`: "" is the running one; tests bring their own.
struct System {
  std::string root{};

  /// The whole file, without white space at its end; "" if it cannot be read.
  std::string read(const std::string& path) const;
};

struct LookUp {
  std::vector<std::string> addresses;  // as numbers
  std::string error;                   // the resolver's words, if there are none
  double seconds = 0;
};
using Resolver = std::function<LookUp(const std::string& name)>;
/// The system's, given up after 5 s.
LookUp look_up(const std::string& name);

/// Name of this host, localhost, and MASTER_ADDR if it is set: do they lead where they should?
Findings check_names(const std::string& host_name, const comm::Environment& environment, const Resolver& resolver);

/// `route_address`: where the default route leaves from, "" for none.
Findings check_interfaces(const std::vector<comm::InterfaceAddress>& interfaces, const std::string& route_address);

/// Can a port be opened and reached: on loopback, and on `own_address` (if not ""); is MASTER_PORT free; are there
/// ports and room for connections enough?
Findings check_ports(const std::string& own_address, const comm::Environment& environment, const System& system = {});

/// InfiniBand and RoCE ports that are up, and whether UCX can use them.
Findings check_ucx(const System& system = {});

/// Open descriptors, processes, /dev/shm, memory and its cgroup limit.
Findings check_limits(const System& system = {});

struct Cores {
  int online = 1;
  int usable = 1;  // this process's affinity
};
Cores count_cores();
/// Cores and what a cgroup allows of them; how busy they are.
Findings check_cores(const Cores& cores, const System& system = {});

/// Which launcher's variables are there, what Tutti makes of them, and the job secret.
Findings check_launcher(const comm::Environment& environment);

/// GPUs that the driver has, and whether this build uses them.
Findings check_gpu(const System& system = {});

/// All of the above, on the running system.
Findings check_host();

// What one host cannot find out by itself: can the ranks of a job connect to each other, between the very hosts and
// addresses they run on? Every rank opens a port (Answerer) and calls those of others (check_reach); a host alone calls
// itself. Forming a group would find the same, but stop at the first closed door; this goes on and names each.

/// What ranks tell each other about themselves, through the job's store.
struct RankCard {
  int rank = 0;
  std::string host;      // its name
  std::string identity;  // equal for ranks that share a host
  std::string address;   // of this host, on the way to the store; as a number
  std::string interface {};
  std::uint16_t port = 0;  // where this rank answers with ...
  std::string token{};     // ... this, so that a namesake elsewhere is found out
};

/// Everything but port and token. Throws comm::Error{InvalidArgument} where TUTTI_IFACE fits no interface.
RankCard own_card(const comm::World& world);

/// The cards of all ranks, by rank.
std::vector<RankCard> exchange_cards(comm::Store& store, int world_size, const RankCard& own, comm::Deadline deadline);

/// The lowest rank of each host, ascending.
std::vector<int> host_leaders(const std::vector<RankCard>& cards);

/// "rank 2 (alpha, 10.0.0.2)".
std::string described(const RankCard& card);

/// Listens on a free port of `address` and answers every caller with `token`, in a thread of its own, until destroyed.
/// The constructor throws comm::Error if the port cannot be opened.
class Answerer {
 public:
  Answerer(const std::string& address, std::string token);
  ~Answerer();
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  void answer();

  const std::string token_;
  comm::Socket listener_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

/// What is said at a port. Throws comm::Error.
std::string call(const std::string& address, std::uint16_t port, comm::Deadline deadline);

/// Whom rank `caller` calls: everybody in worlds up to 16 ranks; else the next rank, and for a host's lowest rank those
/// of the other hosts.
std::vector<int> whom_to_call(const std::vector<RankCard>& cards, int caller);

/// Calls them, one after the other. A failure for each that is not reached within `patience` or where another program
/// answers; one finding that all is well if there is none. After four failures it gives up on the rest, and says so.
Findings check_reach(const std::vector<RankCard>& cards, int caller, std::chrono::milliseconds patience);

struct WorldReport {
  Findings findings;  // what this rank is to show: rank 0 everything, others nothing unless the ranks could not meet
  Verdict verdict = Verdict::Ok;  // of all, on all ranks
};

/// To be called by all ranks of a job of several. `own` is what check_host() found here; of each host it is told once.
/// Checks that the ranks meet, that each can connect to others, and addresses. When the ranks do not
/// meet within `timeout` this is the finding. Never throws for what a check finds; throws std::bad_alloc and the like.
WorldReport check_world(const comm::World& world, const Findings& own, std::chrono::milliseconds timeout);

}  // namespace tutti::doctor
