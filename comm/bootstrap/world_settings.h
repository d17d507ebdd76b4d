// The settings of World::detect: the caller's options and the environment's variables, read strictly, and listed in
// every error. Internal to comm/bootstrap.
//
// An object refers to the environment that it was made with. Thread-safety: none.
#pragma once

#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/world.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace tutti::comm {

class WorldSettings {
 public:
  /// Throws InvalidArgument for an option that the environment contradicts.
  WorldSettings(const WorldOptions& options, const Environment& environment);

  /// The option, else the variable. Throws InvalidArgument if it is empty.
  std::optional<std::string> text(const std::string& name) const;
  /// The same, for a whole number in [least, most].
  std::optional<int> number(const std::string& name, int least, int most) const;
  /// Throws InvalidArgument with `purpose` if one of `names` is not set.
  void demand(std::initializer_list<const char*> names, const std::string& purpose) const;

  /// Whether it is set, as option or variable.
  bool has(const std::string& name) const { return find(name).has_value(); }
  bool found_any() const { return !found_.empty(); }
  bool any_option() const { return !options_.empty(); }

  /// Everything that was found, for the text of an error; never the secret.
  std::string listing() const;
  /// For World::detected_from.
  std::string source() const;

  const Environment& environment() const { return environment_; }

 private:
  std::optional<std::string> find(const std::string& name) const;

  const Environment& environment_;
  std::map<std::string, std::string> options_;  // by the variables that say the same
  std::string found_;
  std::string names_;
};

/// `written`, the value of `name`, as a number in [least, most]; else throws InvalidArgument, with `remedy` at the end.
int whole_number(const std::string& name, const std::string& written, int least, int most, const std::string& remedy);

/// "HOST:PORT" in its parts, an IPv6 address without its brackets; nothing for another text.
std::optional<std::pair<std::string, std::uint16_t>> parse_host_and_port(const std::string& text);

std::string rank_text(const World& world);  // "rank 3/4"

std::string shown_value(const std::string& value);  // in quotes, without control characters

}  // namespace tutti::comm
