// Environment: where variables are looked up. Thread-safety: as getenv().
#pragma once

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

namespace tutti::comm {

/// Looks up one environment variable; tests pass their own.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// The variables of this process.
inline Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

}  // namespace tutti::comm
