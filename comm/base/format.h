// Text with numbers in it, the same under every locale of the program: its decimal point would make JSON, CSV and what
// is compared between ranks wrong. Thread-safe.
#pragma once

#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::comm {

/// As printf, but with the C locale's numbers.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

/// Two lower-case digits a byte.
std::string hex_digits(std::span<const unsigned char> bytes);

/// The whole text as a number (decimal or hexadecimal), or nothing.
std::optional<double> parse_number(const std::string& text);

/// The whole text as a decimal number that T can hold, or nothing.
template <typename T>
std::optional<T> decimal(std::string_view text) {
  T value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// `word` as one word of a POSIX shell.
std::string shell_quoted(const std::string& word);

/// What is before, between and behind the separators: "" has one part, ",a" two.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace tutti::comm
