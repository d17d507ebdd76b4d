// The functions that students write, as the grader poses them: what each rank is given, and whether what comes back is
// right. Inputs are chosen so that a wrong result explains itself: it can be read off a sum whose contribution is
// missing, and off an array whose elements these are.
//
// Pure functions.
#pragma once

#include <tutti/tools/labs/referee.h>

#include <optional>
#include <string>

namespace tutti::labs {

/// The buffers of all ranks for a call of `function`, one of lab.h's macros. `is_cost`: the run is made for its
/// messages and time, not for what else it may show.
Question pose(const std::string& function, const Case& posed, bool is_cost);

/// What is wrong with the results of a run without an incident; the first thing, if several.
std::optional<Incident> judge(const Question& question, const RunResult& result);

}  // namespace tutti::labs
