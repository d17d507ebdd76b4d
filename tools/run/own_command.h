// What a program needs that starts its own ranks: has a launcher done so already, and how was I called?
//
// Thread-safety: pure readers of the environment and of /proc.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tutti::tools {

/// The number of ranks that a launcher has set (WORLD_SIZE, where RANK is set too); nothing without one.
std::optional<std::string> world_size_from_launcher();

/// This process's own command, for launch(): the ranks get the same one, and find RANK in their environment. Throws
/// std::runtime_error if /proc does not tell.
std::vector<std::string> own_command();

}  // namespace tutti::tools
