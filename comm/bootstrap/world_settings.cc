#include <tutti/comm/base/format.h>
#include <tutti/comm/bootstrap/world_settings.h>
#include <tutti/comm/wire/printable.h>

namespace tutti::comm {

WorldSettings::WorldSettings(const WorldOptions& options, const Environment& environment) : environment_(environment) {
  const auto add = [&](const char* name, const std::optional<std::string>& option) {
    const auto value = environment_(name);
    if (option && value && *option != *value)
      refuse("the option for ", name, " is ", shown_value(*option), ", but the environment has ", name, "=",
             shown_value(*value), "; drop one of the two");
    if (option) options_[name] = *option;
  };
  const auto add_number = [&](const char* name, const std::optional<int>& option) {
    add(name, option ? std::optional(std::to_string(*option)) : std::nullopt);
  };
  add_number("RANK", options.rank);
  add_number("WORLD_SIZE", options.world_size);
  add("MASTER_ADDR", options.master_addr);
  add_number("MASTER_PORT", options.master_port);
  add("TUTTI_STORE", options.store);
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    const auto value = environment_(name);
    if (!value) continue;
    found_ += (found_.empty() ? "" : ", ") + std::string(name) + "=" + shown_value(*value);
    names_ += (names_.empty() ? "" : ", ") + std::string(name);
  }
}

std::optional<std::string> WorldSettings::find(const std::string& name) const {
  const auto option = options_.find(name);
  return option == options_.end() ? environment_(name) : option->second;
}

std::optional<std::string> WorldSettings::text(const std::string& name) const {
  auto value = find(name);
  if (value && value->empty()) refuse(name, " is set but empty (found: ", found_, "); unset it or give it a value");
  return value;
}

std::optional<int> WorldSettings::number(const std::string& name, int least, int most) const {
  const auto value = find(name);
  if (!value) return std::nullopt;
  return whole_number((options_.contains(name) ? "the option for " : "") + name, *value, least, most, "; " + listing());
}

void WorldSettings::demand(std::initializer_list<const char*> names, const std::string& purpose) const {
  std::string missing;
  for (const char* name : names)
    if (!has(name)) missing += (missing.empty() ? "" : ", ") + std::string(name);
  if (!missing.empty())
    refuse(purpose, "; missing: ", missing, "; ", listing(),
           ". Set what is missing, start the ranks by a launcher (tutti run), or unset the others to run one rank");
}

std::string WorldSettings::listing() const {
  std::string text = "found: " + (found_.empty() ? std::string("none of these variables") : found_);
  for (const auto& [name, value] : options_) text += ", option " + name + "=" + shown_value(value);
  for (const char* name : {"TUTTI_LAUNCHER", "TUTTI_MEET_DIR", "TUTTI_STORE", "TUTTI_JOB_ID"})
    if (const auto value = environment_(name)) text += std::string(", ") + name + "=" + shown_value(*value);
  return text + (environment_("TUTTI_JOB_SECRET") ? ", TUTTI_JOB_SECRET=(set)" : "");
}

std::string WorldSettings::source() const {
  if (!any_option()) return found_any() ? names_ + " in the environment" : "nothing: one rank";
  return found_any() ? "explicit options, and " + names_ + " in the environment" : "explicit options";
}

int whole_number(const std::string& name, const std::string& written, int least, int most, const std::string& remedy) {
  if (const auto value = decimal<int>(written); value && *value >= least && *value <= most) return *value;
  refuse(name, "=", shown_value(written), " is no whole number in ", least, "..", most, remedy);
}

std::optional<std::pair<std::string, std::uint16_t>> parse_host_and_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  const auto port = decimal<std::uint16_t>(std::string_view(text).substr(colon + 1));
  if (port.value_or(0) == 0) return std::nullopt;
  const bool bracketed = text[0] == '[' && text[colon - 1] == ']';
  return std::pair(bracketed ? text.substr(1, colon - 2) : text.substr(0, colon), *port);
}

std::string rank_text(const World& world) { return joined("rank ", world.rank, "/", world.world_size); }

std::string shown_value(const std::string& value) { return '"' + printable(value, 200) + '"'; }

}  // namespace tutti::comm
