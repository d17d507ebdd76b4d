#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/world_settings.h>
#include <tutti/comm/wire/printable.h>

#include <array>
#include <charconv>

namespace tutti::comm {
namespace {

constexpr std::array kPlaceVariables = {"RANK",        "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
                                        "MASTER_ADDR", "MASTER_PORT"};

std::string range(int least, int most) { return shown_value(least) + ".." + shown_value(most); }

template <typename T>
std::optional<T> merged(const std::string& name, const std::optional<T>& option, const std::optional<T>& value) {
  if (option && value && *option != *value) {
    refuse_world("the option for " + name + " is " + shown_value(*option) + ", but the environment has " + name + "=" +
                 shown_value(*value) + "; drop one of the two");
  }
  return option ? option : value;
}

}  // namespace

WorldSettings::WorldSettings(const WorldOptions& options, const Environment& environment)
    : options_(options), environment_(environment) {
  for (const char* name : kPlaceVariables) {
    if (const auto value = environment_(name)) {
      found_ += (found_.empty() ? "" : ", ") + std::string(name) + "=" + shown_value(*value);
      names_ += (names_.empty() ? "" : ", ") + std::string(name);
    }
  }
}

std::optional<std::string> WorldSettings::text(const std::string& name,
                                               const std::optional<std::string>& option) const {
  auto value = environment_(name);
  if (value && value->empty())
    refuse_world(name + " is set but empty (found: " + found_ + "); unset it or give it a value");
  return merged(name, option, value);
}

std::optional<int> WorldSettings::number(const std::string& name, int least, int most,
                                         const std::optional<int>& option) const {
  std::optional<int> value;
  if (const auto written = environment_(name)) {
    int number = 0;
    const auto [end, status] = std::from_chars(written->data(), written->data() + written->size(), number);
    if (status != std::errc() || end != written->data() + written->size()) {
      refuse_world(name + "=" + shown_value(*written) + " is no whole number in " + range(least, most) +
                   " (found: " + found_ + ")");
    }
    if (number < least || number > most) {
      refuse_world(name + "=" + *written + " must lie in " + range(least, most) + " (found: " + found_ + ")");
    }
    value = number;
  }
  if (option && (*option < least || *option > most)) {
    refuse_world("the option for " + name + " is " + shown_value(*option) + "; it must lie in " + range(least, most));
  }
  return merged(name, option, value);
}

std::optional<std::pair<std::string, std::uint16_t>> parse_host_and_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  std::uint16_t port = 0;
  const auto [end, status] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  if (status != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  const bool bracketed = text[0] == '[' && text[colon - 1] == ']';
  return std::pair(bracketed ? text.substr(1, colon - 2) : text.substr(0, colon), port);
}

bool WorldSettings::any_option() const {
  return options_.rank || options_.world_size || options_.master_addr || options_.master_port || options_.store;
}

bool WorldSettings::place_is_said() const {
  return options_.rank || options_.world_size || environment_("RANK") || environment_("WORLD_SIZE");
}

std::string WorldSettings::listing() const {
  std::string text = "found: " + (found_.empty() ? std::string("none of these variables") : found_);
  const auto add = [&](const char* name, const auto& option) {
    if (option) text += std::string(", option ") + name + "=" + shown_value(*option);
  };
  add("rank", options_.rank);
  add("world_size", options_.world_size);
  add("master_addr", options_.master_addr);
  add("master_port", options_.master_port);
  add("store", options_.store);
  for (const char* name : {"TUTTI_LAUNCHER", "TUTTI_MEET_DIR", "TUTTI_STORE"})
    if (const auto value = environment_(name)) text += std::string(", ") + name + "=" + shown_value(*value);
  if (environment_("TUTTI_JOB_SECRET")) text += ", TUTTI_JOB_SECRET=(set)";
  if (const auto id = environment_("TUTTI_JOB_ID")) text += ", TUTTI_JOB_ID=" + shown_value(*id);
  return text;
}

std::string WorldSettings::source() const {
  if (!any_option()) return found_any() ? names_ + " in the environment" : "nothing: one rank";
  return found_any() ? "explicit options, and " + names_ + " in the environment" : "explicit options";
}

void refuse_world(const std::string& text) { throw Error(ErrorCode::InvalidArgument, text); }

std::string shown_value(int value) { return std::to_string(value); }
std::string shown_value(const std::string& value) { return '"' + printable(value, 200) + '"'; }

void demand_settings(const WorldSettings& settings, const std::vector<std::pair<const char*, bool>>& needed,
                     const std::string& purpose) {
  std::string missing;
  for (const auto& [name, present] : needed) {
    if (!present) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (missing.empty()) return;
  refuse_world(purpose + "; missing: " + missing + "; " + settings.listing() +
               ". Set what is missing, start the ranks by a launcher (tutti run), or unset the others to run one rank");
}

}  // namespace tutti::comm
