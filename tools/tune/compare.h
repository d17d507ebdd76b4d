// Prediction against measurement: what the model says of all_reduce, and what it takes.
//
// Thread-safety: collective; one thread a group.
#pragma once

#include <tutti/tools/tune/tuner.h>

#include <ostream>
#include <string>
#include <vector>

namespace tutti::tools {

struct Compared {
  std::string algorithm;
  std::size_t bytes = 0;
  double predicted_seconds = 0;
  double measured_seconds = 0;
  bool is_chosen = false;  // by `tuning`, for this size

  double ratio() const { return predicted_seconds / measured_seconds; }
};

/// all_reduce of 1 KiB, 4 KiB, ... max_bytes by each algorithm, `seconds` in all. Equal on all ranks.
std::vector<Compared> compare(comm::ProcessGroup& group, const comm::Tuning& tuning, std::size_t max_bytes,
                              double seconds);

/// A table, and how many of its ratios lie within 30 %.
void print_comparison(std::ostream& out, const std::vector<Compared>& rows);

/// Per operation and size the fastest algorithm and the times of all.
void print_tuning(std::ostream& out, const comm::Tuning& tuning);

}  // namespace tutti::tools
