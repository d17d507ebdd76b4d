// What the tests of `tutti bench` share.
#pragma once

#include <tutti/tools/bench/operations.h>
#include <tutti/tools/commands.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tutti::test {

inline const tools::bench::Operation& bench_operation(std::string_view name) {
  for (const tools::bench::Operation& operation : tools::bench::operations()) {
    if (operation.name == name) return operation;
  }
  throw std::out_of_range("no operation " + std::string(name));
}

/// The text of the WrongUsage that `action` throws.
inline std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const tools::WrongUsage& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace tutti::test
