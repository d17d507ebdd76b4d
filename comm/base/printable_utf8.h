// Shows text of any language that came from outside. Pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::comm {

/// Bytes of the character that the text begins with; 0 if that is none, or a control character. RFC 3629.
inline std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  const unsigned least = first == 0xc2 || first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;  // c2 80 to c2 9f: C1
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (first < 0xc2 || first > 0xf4 || byte(1) < least || byte(1) > most) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

/// Each byte of control characters (but those in `kept`) and of what is no UTF-8 becomes '?'.
inline std::string printable_utf8(std::string_view text, std::string_view kept = "") {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = kept.find(text[0]) != std::string_view::npos ? 1 : utf8_length(text);
    result += length == 0 ? "?" : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return result;
}

}  // namespace tutti::comm
