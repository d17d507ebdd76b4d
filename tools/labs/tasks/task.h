// Task: a function that students write, as the grader poses it: what each rank is given, and whether what comes back is
// right. Inputs are chosen so that a wrong result explains itself: it can be read off a sum whose contribution is
// missing, and off an array whose elements these are.
//
// Immutable; pure functions.
#pragma once

#include <tutti/tools/labs/referee.h>

#include <optional>
#include <string>

namespace tutti::labs {

class Task {
 public:
  virtual ~Task() = default;

  /// The buffers of all ranks. `is_cost`: the run is made for its messages and time, not for what else it may show.
  virtual Question pose(const Case& posed, bool is_cost) const = 0;

  /// What is wrong with the results of a run without an incident; the first thing, if several.
  virtual std::optional<Incident> judge(const Question& question, const RunResult& result) const = 0;
};

/// The one for a function of lab.h's macros; null if there is none of that name.
const Task* task_of(const std::string& function);

}  // namespace tutti::labs
