// Texts put together of their parts. Pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

namespace tutti::comm {

/// The parts one behind the other: strings and characters as they are, whole numbers in decimal. Other numbers
/// need a format (format.h).
template <typename... Parts>
std::string joined(const Parts&... parts) {
  std::string text;
  const auto add = [&text]<typename Part>(const Part& part) {
    static_assert(!std::is_floating_point_v<Part> && !std::is_same_v<Part, bool>);
    if constexpr (std::is_enum_v<Part> || (std::is_integral_v<Part> && !std::is_same_v<Part, char>)) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (add(parts), ...);
  return text;
}

/// The elements, or what `text_of` makes of each, with `between` between two.
template <typename Range, typename TextOf = std::identity>
std::string listed(const Range& elements, std::string_view between = ", ", const TextOf& text_of = {}) {
  std::string text;
  for (const auto& element : elements) text += joined(text.empty() ? "" : between, std::invoke(text_of, element));
  return text;
}

}  // namespace tutti::comm
