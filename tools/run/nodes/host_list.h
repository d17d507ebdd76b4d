// The hosts of a job that one launcher starts: -H and --hostfile. Values; pure functions but for read_hostfile.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

struct HostSlots {
  std::string host;          // as given to the remote command; "user@node1" will do
  std::optional<int> slots;  // ranks; nothing where none were said
};

/// "node1:4,node2:2,node3", "[fe80::1]:2". Throws std::invalid_argument.
std::vector<HostSlots> parse_hosts(const std::string& text);

/// A line for each host: "node1", "node1:4" (MPICH) or "node1 slots=4" (Open MPI); "#" begins a comment; other words of
/// a line are passed over. A host that stands there several times has so many slots more (PBS_NODEFILE). Throws
/// std::invalid_argument, naming `name` and the line.
std::vector<HostSlots> parse_hostfile(const std::string& text, const std::string& name);
std::vector<HostSlots> read_hostfile(const std::string& path);

}  // namespace tutti::tools
