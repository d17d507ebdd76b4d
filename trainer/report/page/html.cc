#include <tutti/comm/base/printable_utf8.h>
#include <tutti/trainer/report/page/html.h>

namespace tutti::trainer::page {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

std::string_view entity(char c) {
  constexpr std::string_view kSpecial = "&<>\"'";
  constexpr std::string_view kEntities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  const auto at = kSpecial.find(c);
  return at == std::string_view::npos ? std::string_view() : kEntities[at];
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const char c = text.front();
    std::size_t length = c == '\t' || c == '\n' ? 1 : comm::utf8_length(text);
    if (length == 0) {
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
