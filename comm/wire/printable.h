// Shows bytes that came from outside in error texts and logs: never raw.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tutti::comm {

/// The first `limit` bytes as "47 45 54 20 (\"GET \")", with ", ..." when there are more; "no bytes" for none.
std::string quote_bytes(std::span<const std::byte> bytes, std::size_t limit = 16);

/// Control characters and non-ASCII bytes become '?'; longer texts are cut at `limit` and end in "...".
std::string printable(std::string_view text, std::size_t limit = 512);

/// 16 hex digits with 0x.
std::string hex(unsigned long long value);

}  // namespace tutti::comm
