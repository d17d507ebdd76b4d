#include <tutti/comm/base/format.h>
#include <tutti/comm/base/printable_utf8.h>
#include <tutti/comm/base/text.h>
#include <tutti/comm/bootstrap/settings.h>

#include <algorithm>
#include <map>

namespace tutti::comm {
namespace {

constexpr char kBetween = '\t';  // printable_utf8() lets none through
constexpr std::size_t kRanksShown = 8;

std::string value_of(const Settings& settings, const std::string& name) {
  const auto found = std::ranges::find(settings, name, &Setting::name);
  return found == settings.end() ? "unknown" : found->value;
}

/// "transport (TUTTI_TRANSPORT) is tcp on rank 1 (host b, pid 7), auto on ranks 0 (host a, pid 5), 2 (host a, pid 6)";
/// "" if all ranks have one value.
std::string difference_in(const std::string& name, std::span<const Settings> settings,
                          std::span<const std::string> ranks) {
  std::map<std::string, std::vector<std::size_t>> ranks_with;
  for (std::size_t rank = 0; rank < settings.size(); ++rank) ranks_with[value_of(settings[rank], name)].push_back(rank);
  if (ranks_with.size() == 1) return "";
  std::string text;
  for (const auto& [value, with] : ranks_with) {
    text += (text.empty() ? name + " is " : ", ") + value + (with.size() == 1 ? " on rank " : " on ranks ");
    for (std::size_t i = 0; i < std::min(with.size(), kRanksShown); ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(with[i]) + (ranks.empty() ? "" : " (" + ranks[with[i]] + ")");
    if (with.size() > kRanksShown) text += " and " + std::to_string(with.size() - kRanksShown) + " more";
  }
  return text;
}

}  // namespace

std::string to_text(const Settings& settings) {
  const auto text_of = [](const Setting& one) { return printable_utf8(one.name) + "=" + printable_utf8(one.value); };
  return listed(settings, {&kBetween, 1}, text_of);
}

Settings settings_from(const std::string& text) {
  Settings settings;
  if (text.empty()) return settings;
  for (const std::string& word : split(text, kBetween)) {
    const std::size_t equals = std::min(word.find('='), word.size());
    settings.push_back({word.substr(0, equals), word.substr(std::min(equals + 1, word.size()))});
  }
  return settings;
}

std::string difference(std::span<const Settings> settings, std::span<const std::string> ranks) {
  std::vector<std::string> names;
  for (const Settings& of_rank : settings)
    for (const Setting& setting : of_rank)
      if (std::ranges::find(names, setting.name) == names.end()) names.push_back(setting.name);
  std::string text;
  for (const std::string& name : names) {
    const std::string one = difference_in(name, settings, ranks);
    text += (text.empty() || one.empty() ? "" : "; ") + one;
  }
  return text;
}

}  // namespace tutti::comm
