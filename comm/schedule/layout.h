// Layout: the table in schedule.h as functions: how long each buffer of a rank is, and what it holds at the start.
//
// Thread-safety: pure functions.
#pragma once

#include <tutti/comm/schedule/problem.h>
#include <tutti/comm/schedule/schedule.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti::comm {

/// Elements of `buffer` at `rank`; `scratch_count` is the schedule's.
std::size_t extent(const Problem& problem, int rank, BufferId buffer, std::size_t scratch_count);

/// Whether the caller has put this rank's data into `buffer` before the schedule starts.
bool is_filled(const Problem& problem, int rank, BufferId buffer);

/// "step 5 at rank 2 (recv_reduce from rank 1 into output[8, 12))"
std::string describe(int rank, std::size_t index, const Step& step);

/// "output[8, 12)"
std::string describe(const Slice& slice);

std::string_view name(BufferId buffer);  // "input", "output", "scratch"

inline bool sends(const Step& step) { return step.kind == Step::Kind::Send; }
inline bool receives(const Step& step) { return step.kind == Step::Kind::Recv || step.kind == Step::Kind::RecvReduce; }
inline bool has_source(const Step& step) { return !receives(step); }
inline bool has_target(const Step& step) { return !sends(step); }
/// The target is read too.
inline bool reduces(const Step& step) { return step.kind == Step::Kind::RecvReduce || step.kind == Step::Kind::Reduce; }

}  // namespace tutti::comm
