// The trace file: all operations of all ranks in the JSON of Chrome's trace viewer, which Perfetto (ui.perfetto.dev)
// opens too.
//
// One object: "traceEvents", "displayTimeUnit" and "otherData". Ranks are processes (pid = rank), groups are threads of
// them (tid), of which each has a second one for its messages. An operation is a complete event ("ph": "X") named after
// it, with seq, type, count, bytes, root or tag, algorithm and state in "args". "ts" and "dur" are in microseconds
// since the first operation of any rank began, by rank 0's clock. Format: "Trace Event Format", Google, 2016.
//
// Thread-safety: pure functions, but for write_trace_file.
#pragma once

#include <tutti/comm/trace.h>

#include <chrono>
#include <span>
#include <string>

namespace tutti::comm {

/// How a rank's clock relates to rank 0's.
struct ClockOffset {
  std::chrono::nanoseconds to_rank_0{0};    // to be added to this rank's times
  std::chrono::nanoseconds uncertainty{0};  // half of the fastest round trip
};

/// One rank's part of "traceEvents", its members separated by commas. `zero` is the time of ts 0 on rank 0's clock.
std::string trace_events(const TraceLog::Snapshot& log, int rank, const ClockOffset& offset,
                         TraceClock::time_point zero);

/// Throws System naming the file if it is clear already that it cannot be written.
void check_trace_file(const std::string& path);

/// Writes the ranks' parts as one file, which appears complete or not at all. Throws System naming the file.
void write_trace_file(const std::string& path, std::span<const std::string> parts);

}  // namespace tutti::comm
