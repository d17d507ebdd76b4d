// Settings: what must be equal on all ranks of a group for its results to be right, as names and values that the ranks
// compare when the group forms. They travel with the ranks' addresses (rank_addresses.h), by name: where versions
// differ in their lists, the error names what is missing.
//
// Thread-safety: values and functions of their arguments.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tutti::comm {

struct Setting {
  std::string name;  // as users set it: "algorithm (TUTTI_ALGO)"
  std::string value;
  bool operator==(const Setting&) const = default;
};
using Settings = std::vector<Setting>;

/// One line; control characters become "?". settings_from() takes any text.
std::string to_text(const Settings& settings);
Settings settings_from(const std::string& text);

/// What differs between the ranks: each such setting with its values and the ranks that have them; "" if all agree. The
/// same text on all ranks. `ranks`: what else each rank is called ("host a, pid 5"), or empty.
std::string difference(std::span<const Settings> settings, std::span<const std::string> ranks = {});

}  // namespace tutti::comm
