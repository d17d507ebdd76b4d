// The settings of World::detect: the caller's options and the environment's variables, read strictly, and listed in
// every error. Internal to comm/bootstrap.
//
// An object refers to the options and the environment that it was made with. Thread-safety: none.
#pragma once

#include <tutti/comm/bootstrap/world.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::comm {

class WorldSettings {
 public:
  WorldSettings(const WorldOptions& options, const Environment& environment);

  /// The option, else the variable. Throws InvalidArgument if they differ, or the variable is empty.
  std::optional<std::string> text(const std::string& name, const std::optional<std::string>& option = {}) const;
  /// The same, for a whole number in [least, most].
  std::optional<int> number(const std::string& name, int least, int most, const std::optional<int>& option = {}) const;

  bool found_any() const { return !found_.empty(); }
  bool any_option() const;
  /// Whether RANK or WORLD_SIZE are set, as option or variable: then no launcher's variables count.
  bool place_is_said() const;

  /// Everything that was found, for the text of an error; never the secret.
  std::string listing() const;
  /// For World::detected_from.
  std::string source() const;

  const Environment& environment() const { return environment_; }

 private:
  const WorldOptions& options_;
  const Environment& environment_;
  std::string found_;
  std::string names_;
};

[[noreturn]] void refuse_world(const std::string& text);  // InvalidArgument

/// "HOST:PORT" in its parts, an IPv6 address without its brackets; nothing for another text.
std::optional<std::pair<std::string, std::uint16_t>> parse_host_and_port(const std::string& text);

std::string shown_value(int value);
std::string shown_value(const std::string& value);  // in quotes, without control characters

/// Throws InvalidArgument with `purpose` if one of `needed` is not there.
void demand_settings(const WorldSettings& settings, const std::vector<std::pair<const char*, bool>>& needed,
                     const std::string& purpose);

}  // namespace tutti::comm
