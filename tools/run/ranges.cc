#include <tutti/tools/run/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>

namespace tutti::tools {

std::optional<int> parse_number(std::string_view text) {
  int value = 0;
  const bool digits = !text.empty() && text.size() <= 6 &&
                      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return std::nullopt;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::optional<std::vector<int>> parse_ranges(std::string_view text) {
  std::vector<int> result;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, comma);
    const std::size_t dash = part.find('-');
    const auto first = parse_number(part.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_number(part.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    const std::size_t size = result.size();
    result.resize(size + static_cast<std::size_t>(*last - *first) + 1);
    std::iota(result.begin() + static_cast<std::ptrdiff_t>(size), result.end(), *first);
    if (comma + 1 == text.size()) return std::nullopt;  // "1,"
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::string to_ranges(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string result;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!result.empty()) result += ",";
    result += std::to_string(numbers[i]);
    if (last > i) result += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return result;
}

}  // namespace tutti::tools
