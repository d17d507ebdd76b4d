// One row of a bench run, as the table prints it and the JSON file holds it.
//
// A value; dtype and redop are names that comm owns. GB is 1e9 bytes; bandwidths are those of the median time.
#pragma once

#include <tutti/tools/bench/measure.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::tools::bench {

struct Result {
  std::string op;
  int ranks = 1;
  std::string transport;                 // "tcp"; "none" for one rank
  std::optional<std::string> algorithm;  // empty for messages and for one rank
  bool registered = false;
  std::optional<std::string_view> dtype;  // empty for barrier
  std::optional<std::string_view> redop;  // empty where nothing is reduced
  std::optional<int> root;                // empty where there is none
  std::size_t bytes = 0;
  std::size_t count = 0;
  Measurement measured;
  double algbw_gbps = 0;
  double busbw_gbps = 0;
};

}  // namespace tutti::tools::bench
