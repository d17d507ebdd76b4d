// Sets of small numbers as people and the kernel write them: "0,2-5". Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

/// A number of at most six digits and nothing else.
std::optional<int> parse_number(std::string_view text);

/// The numbers of "0,2-5", sorted, each once; nothing if the text is something else. "" has none.
std::optional<std::vector<int>> parse_ranges(std::string_view text);

/// The reverse, for numbers in any order.
std::string to_ranges(std::vector<int> numbers);

}  // namespace tutti::tools
