#include <tutti/tools/run/ranges.h>
#include <tutti/tools/run/stream_map.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace tutti::tools {
namespace {

std::optional<int> stream_value(const std::string& text) {
  return text.size() == 1 && text[0] >= '0' && text[0] <= '3' ? std::optional<int>(text[0] - '0') : std::nullopt;
}

}  // namespace

StreamMap StreamMap::parse(const std::string& text, const std::string& option) {
  const std::invalid_argument wrong(option + " is '" + text +
                                    "', but must be 0 (none), 1 (standard output), 2 (standard error) or 3 (both), or "
                                    "a map from local ranks to these, as 0:1,1:2");
  if (const auto all = stream_value(text)) return StreamMap(*all);
  StreamMap result;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const std::size_t colon = entry.find(':');
    if (colon == std::string::npos) throw wrong;
    const auto rank = parse_number(entry.substr(0, colon));
    const auto value = stream_value(entry.substr(colon + 1));
    if (!rank || !value) throw wrong;
    result.by_rank_[*rank] = *value;
  }
  if (result.by_rank_.empty()) throw wrong;
  return result;
}

bool StreamMap::has(int local_rank, Stream stream) const {
  const auto found = by_rank_.find(local_rank);
  const int value = found != by_rank_.end() ? found->second : all_;
  return ((value >> static_cast<int>(stream)) & 1) != 0;
}

bool StreamMap::any() const {
  return all_ != 0 || std::any_of(by_rank_.begin(), by_rank_.end(), [](const auto& entry) { return entry.second; });
}

}  // namespace tutti::tools
