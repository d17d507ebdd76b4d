#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <cstdio>

namespace tutti::comm {
namespace {

bool is_printable(unsigned char c) { return c >= 0x20 && c < 0x7f; }

}  // namespace

std::string quote_bytes(std::span<const std::byte> bytes, std::size_t limit) {
  if (bytes.empty()) return "no bytes";
  std::string digits;
  std::string text;
  for (const std::byte b : bytes.first(std::min(limit, bytes.size()))) {
    char pair[4];
    std::snprintf(pair, sizeof pair, "%02x", std::to_integer<unsigned>(b));
    if (!digits.empty()) digits += ' ';
    digits += pair;
    const auto c = std::to_integer<unsigned char>(b);
    text += is_printable(c) ? static_cast<char>(c) : '.';
  }
  if (bytes.size() > limit) digits += " ...";
  return digits + " (\"" + text + "\")";
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string result(text.substr(0, limit));
  for (char& c : result) {
    if (!is_printable(static_cast<unsigned char>(c))) c = '?';
  }
  if (text.size() > limit) result += "...";
  return result;
}

std::string hex(unsigned long long value) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "0x%016llx", value);
  return digits;
}

}  // namespace tutti::comm
