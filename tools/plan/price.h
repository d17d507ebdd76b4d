// What each algorithm of a collective takes: the rows that `tutti plan` prints, and its messages as a drawing.
//
// Thread-safety: values and pure functions.
#pragma once

#include <tutti/comm/algorithms/simulator.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::tools {

struct Question {
  comm::Problem problem;  // its rank is ignored
  std::size_t element_bytes = 1;
  comm::NetworkModel network;
  bool simulate = false;
};

/// Of the busiest rank: the most steps of any rank, and the most messages and bytes through one port (to or from) of
/// any rank.
struct Price {
  std::string algorithm;
  std::size_t steps = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::optional<double> predicted_seconds;
  std::optional<double> simulated_seconds;
  std::vector<std::string> notes;  // what is not quite as asked, in sentences
};

/// The algorithms that do the operation in a world of this size, without those that hand it on to another one, and
/// without the hierarchical ones if there are no hosts.
std::vector<std::string_view> fitting_algorithms(const Question& question);

/// Schedules of very large worlds are not all looked at, nor simulated, where that would take gigabytes; notes say so.
Price price(const Question& question, std::string_view algorithm);

/// A message diagram in text: ranks as columns, time downwards.
///
///                0     1     2     3
///        0.0 us  o----->     o----->   4 B
///                |     o----->     |   4 B
///                <-----------------o   4 B
///
/// A line begins with the time at which its messages start; what starts at the same time and would overlap goes to the
/// next line. "o" sends, an arrow head receives, and two heads exchange messages of one length.
///
/// World sizes up to 16 fit a screen. Ends with a newline.
std::string diagram(std::vector<comm::Transfer> transfers, int world_size);

}  // namespace tutti::tools
