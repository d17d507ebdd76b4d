// The labs that measure. Each compiles the student's source and runs it in the sandbox, on the virtual network, where
// the right times are known: no noise of the machine takes part in grading.
#pragma once

#include <tutti/tools/labs/grade.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti::labs {

Report check_latency(const CheckContext& context);
Report check_compare(const CheckContext& context);

// What both share: one call of a submission's function with buffers of plain values, and what came of it.

template <typename T>
BufferContent buffer_of(const std::string& name, const std::vector<T>& values, bool is_const = false) {
  BufferContent content;
  content.name = name;
  content.is_const = is_const;
  content.bytes.resize(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(content.bytes.data(), values.data(), content.bytes.size());
  return content;
}

template <typename T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// A call of `function`; all ranks are given copies of `buffers`.
Question question_of(const std::string& function, const Case& posed, const std::vector<BufferContent>& buffers);

/// What stopped or marred a run, as a finding; empty if nothing did.
std::optional<Finding> incident_of(const RunResult& run, const std::string& where);

// Diagnoses of these labs, beside those of diagnosis.h.
namespace diagnosis {

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
