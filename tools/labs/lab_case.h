// Case: one call (or a few, one behind the other) of a submission's function on all ranks, and the network it runs on.
//
// Plain values.
#pragma once

#include <tutti/tools/labs/lab.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tutti::labs {

using detail::ElementType;

enum class Combination : std::uint8_t { Sum, Prod, Min, Max };

std::size_t size_of(ElementType type);
std::string name_of(ElementType type);         // "float64"
std::string name_of(Combination combination);  // "sum"

/// The virtual network of the referee. A message of m bytes takes alpha + m beta from the moment both it and the ports
/// of its two ends are free (a rank sends one and receives one message at a time); combining m bytes takes m gamma.
struct NetworkSettings {
  double alpha = 10e-6;                 // seconds per message
  double beta = 1 / 3e9;                // seconds per byte
  double gamma = 1 / 1e10;              // seconds per byte combined
  std::size_t eager_bytes = 64 * 1024;  // longer messages wait for their receiver, as do all with 0
  double jitter = 0;                    // each message arrives up to this many alpha later, at random
  std::uint64_t seed = 1;               // of these delays
};

struct Case {
  int world_size = 4;
  std::size_t count = 12;  // elements of each rank
  int root = 0;
  ElementType type = ElementType::Float64;
  Combination op = Combination::Sum;
  int repetitions = 1;                // calls, without anything in between
  std::vector<std::size_t> counts{};  // all_reduce_many: elements of each tensor; `count` does not count then
  std::uint64_t parameter = 0;        // all_reduce_many: bucket_bytes
  bool is_rounded = false;            // inputs whose sums must be rounded: results may differ in their last bits,
                                      // but not between ranks
  NetworkSettings network{};

  std::size_t bytes() const;  // of one rank's data
};

/// "1 element", "3 elements".
std::string counted(std::size_t number, const std::string& noun);

/// "5 ranks, 13 float64, sum, root 2"; the parts that `function` has.
std::string describe(const std::string& function, const Case& posed);

}  // namespace tutti::labs
