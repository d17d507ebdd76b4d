// What the tests of `tutti bench` share.
#pragma once

#include <tutti/tools/bench/operations.h>

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

}  // namespace tutti::test
