// The labs that measure. Each compiles the student's source and runs it in the sandbox, on the referee's network, where
// the right times are known: no noise of the machine takes part in grading.
#pragma once

#include <tutti/tools/labs/lab_definition.h>

namespace tutti::labs {

Report check_latency(const CheckContext& context);
Report check_compare(const CheckContext& context);

// Diagnoses of these labs, beside those of diagnosis.h.
namespace diagnosis {

// latency, compare
inline constexpr char kRoundTrip[] = "round_trip_not_halved";
inline constexpr char kNotTheWholeWay[] = "stops_the_clock_early";
inline constexpr char kWaitingCounted[] = "counts_waiting_for_the_other";
inline constexpr char kWrongTime[] = "wrong_time";
inline constexpr char kNotRepeated[] = "not_repeated";
inline constexpr char kWrongLine[] = "wrong_line";
inline constexpr char kSwappedLine[] = "alpha_and_beta_swapped";
inline constexpr char kShortIgnored[] = "line_ignores_short_messages";
inline constexpr char kBentLine[] = "line_bent_by_outlier";
inline constexpr char kOwnTimeOnly[] = "not_the_slowest_rank";
inline constexpr char kCallsOverlap[] = "calls_overlap";
inline constexpr char kFirstCallCounted[] = "first_call_counted";

}  // namespace diagnosis
}  // namespace tutti::labs
