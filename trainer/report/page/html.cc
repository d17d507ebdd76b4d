#include <tutti/trainer/report/page/html.h>

namespace tutti::trainer::page {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

/// How many bytes of well-formed UTF-8 begin `text` as one character; 0 if none. RFC 3629, section 4.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto is_tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return is_tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
    return is_tail(1) && is_tail(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
    return is_tail(1) && is_tail(2) && is_tail(3) ? 4 : 0;
  }
  return 0;
}

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const char c = text.front();
    std::size_t length = character_length(text);
    const bool is_control = static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n';
    if (length == 0 || is_control || c == '\x7F') {
      result += kReplacement;
      length = 1;
    } else if (const std::string_view name = entity(c); !name.empty()) {
      result += name;
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return result;
}

std::string filled(std::string_view frame, const std::map<std::string, std::string, std::less<>>& values) {
  std::string html;
  for (auto open = frame.find("{{"); open != std::string_view::npos; open = frame.find("{{")) {
    const auto close = frame.find("}}", open);
    html += frame.substr(0, open);
    html += values.find(frame.substr(open + 2, close - open - 2))->second;
    frame.remove_prefix(close + 2);
  }
  return html.append(frame);
}

}  // namespace tutti::trainer::page
