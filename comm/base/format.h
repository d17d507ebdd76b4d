// Text with numbers in it, the same under every locale of the program: its decimal point would make JSON, CSV and what
// is compared between ranks wrong. Thread-safe.
#pragma once

#include <optional>
#include <string>

namespace tutti::comm {

/// As printf, but with the C locale's numbers.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

/// The whole text as a number (decimal or hexadecimal), or nothing.
std::optional<double> parse_number(const std::string& text);

}  // namespace tutti::comm
