// What `tutti doctor` looks at: on the host that it runs on (one source file a kind, one function each), and in a job.
//
// Every function reads, and changes nothing; ports are opened for a moment on loopback and on this host's own address.
// Nothing waits longer than about 5 s (name look-ups, which have a deadline). Thread-safety: may run in any thread.
#pragma once

#include <tutti/comm/bootstrap/world.h>
#include <tutti/tools/doctor/finding.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tutti::doctor {

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

struct Interface {
  std::string name;
  std::vector<std::string> addresses;
  bool up = false;
  bool loopback = false;
  bool bridge = false;          // docker0, virbr0, br-...: for guests of this host
  std::int64_t mbit_per_s = 0;  // 0: not known
};
/// With what the running system says; speeds and bridges from /sys.
std::vector<Interface> list_interfaces();
/// `route_address`: where the default route leaves from, "" for none.
Findings check_interfaces(const std::vector<Interface>& interfaces, const std::string& route_address);

/// Can a port be opened and reached: on loopback, and on `own_address` (if not ""); is MASTER_PORT free; are there
/// ports and room for connections enough?
Findings check_ports(const std::string& own_address, const comm::Environment& environment, const System& system = {});

/// Open descriptors, processes, core files, /dev/shm, memory and its cgroup limit.
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

// What one host cannot find out by itself: the doctor's visit to a job.

struct WorldReport {
  Findings findings;  // what this rank is to show: rank 0 everything, others nothing unless the ranks could not meet
  Verdict verdict = Verdict::Ok;  // of all, on all ranks
};

/// To be called by all ranks of a job of several. `own` is what check_host() found here; of each host it is told once.
/// Checks that the ranks meet, that each can connect to others (reach.h), names and addresses. When the ranks do not
/// meet within `timeout` this is the finding. Never throws for what a check finds; throws std::bad_alloc and the like.
WorldReport check_world(const comm::World& world, const Findings& own, std::chrono::milliseconds timeout);

}  // namespace tutti::doctor
