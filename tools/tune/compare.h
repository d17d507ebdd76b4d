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
  bool is_chosen = false;  // for this size

  double ratio() const { return predicted_seconds / measured_seconds; }
};

struct Comparison {
  comm::NetworkModel model;  // measured in between, from other operations: no row has part in its prediction
  std::vector<Compared> rows;
};

/// all_reduce of 1 KiB, 4 KiB, ... max_bytes by each algorithm, `seconds` in all, of which the model takes about half.
/// What is chosen is said by `tuning`, or, if there is none, by the model. Equal on all ranks.
Comparison compare(comm::ProcessGroup& group, const comm::Tuning* tuning, std::size_t max_bytes, double seconds);

/// A table, and how many of its ratios lie within 30 %.
void print_comparison(std::ostream& out, const std::vector<Compared>& rows);

/// One line: the place and the model in short.
void print_model(std::ostream& out, const comm::TuningPlace& place, const comm::NetworkModel& model);

/// Per operation and size the fastest algorithm and the times of all.
void print_tuning(std::ostream& out, const comm::Tuning& tuning);

}  // namespace tutti::tools
