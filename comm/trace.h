// Trace: a group's latest operations, for its failure; and, if asked for, all operations of a rank.
//
// FlightRecorder is always on: a ring of the latest operations of one group. It costs a copy of an event and, for an
// operation that is long or waits, two reads of the clock; no lock, for which a CPU would wait until all its earlier
// stores, to lines of other ranks, are done. TraceLog collects all operations of all groups of a rank for the trace
// file (ProcessGroupOptions::trace_file).
//
// Times are of the rank's steady clock. Thread-safety: all methods may be called from any thread, except as
// FlightRecorder says.
#pragma once

#include <tutti/comm/wire/frame.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tutti::comm {

using TraceClock = std::chrono::steady_clock;

struct TraceEvent {
  enum class State : std::uint8_t { Running, Done, Failed };

  Fingerprint operation;    // root holds the tag of a message
  std::uint64_t bytes = 0;  // of the larger of the caller's buffers
  // When the operation's turn came; of a short one without a trace file, when it first had to wait, or never.
  static constexpr TraceClock::time_point kNotTimed{};
  TraceClock::time_point start = kNotTimed;
  TraceClock::time_point end{};  // meaningless while it runs, or was not timed
  State state = State::Running;
  const char* algorithm = "";  // lives as long as the process; "" for messages
  std::uint64_t order = 0;     // among all operations of the group; two of different threads may have the same

  bool is_message() const { return comm::is_message(operation.op); }

  /// "all_reduce seq 17 (sum float32 x 100) by ring: 1.250 ms", "...: at once", "...: failed after 3.1 s", "...:
  /// running for 3.1 s".
  std::string to_string(TraceClock::time_point now) const;
};

/// Everything that one rank has done, in all groups that descend from one.
class TraceLog {
 public:
  static constexpr std::size_t kMaxEvents = 500'000;  // some 60 MB; later ones are counted, not kept

  struct Entry {
    TraceEvent event;
    std::uint32_t group = 0;  // index into Snapshot::groups
  };

  struct Snapshot {
    std::vector<Entry> entries;
    std::vector<std::string> groups;
    std::size_t dropped = 0;  // operations that were not kept
  };

  /// A number for the events of the group `name`.
  std::uint32_t add_group(const std::string& name);
  void add(std::uint32_t group, const TraceEvent& event);

  Snapshot snapshot() const;

 private:
  mutable std::mutex mutex_;
  Snapshot all_;  // guarded by mutex_
};

/// The latest operations of one group. A reader sees whole events, and misses those that are just being written.
class FlightRecorder {
 public:
  static constexpr std::size_t kEvents = 64;

  /// `log` may be null; else it gets every operation that ends.
  FlightRecorder(const std::string& group, std::shared_ptr<TraceLog> log);

  /// What an operation is, for as long as it runs.
  struct Subject {
    const Fingerprint& operation;
    std::uint64_t bytes = 0;
    const char* algorithm = "";
  };

  // One thread at a time begins and ends collectives, which run one after the other, and one messages: the thread that
  // issues operations on the group.

  /// Whether there is a log, for which all operations are to be timed.
  bool keeps_all() const { return log_ != nullptr; }

  /// Notes that an operation has started, maybe without reading the clock; returns the ticket for the others.
  std::uint64_t begin(const Subject& subject, TraceClock::time_point start);
  /// Notes that one that was not timed has begun to wait.
  void waits(std::uint64_t ticket, const Subject& subject, TraceClock::time_point start);
  /// Notes that it has ended, now.
  void end(std::uint64_t ticket, const Subject& subject, TraceClock::time_point start, TraceEvent::State state);

  /// Up to `count` of the latest operations, oldest first. Any thread.
  std::vector<TraceEvent> latest(std::size_t count = kEvents) const;

 private:
  /// A TraceEvent that may be read while it is overwritten: a reader compares the number before and after (seqlock).
  /// Source: H. Boehm, "Can Seqlocks Get Along With Programming Language Memory Models?" (MSPC 2012).
  class Slot {
   public:
    void begin(std::uint64_t number, std::uint64_t order, const Subject& subject, TraceClock::time_point start);
    void waits(std::uint64_t number, TraceClock::time_point start);
    void end(std::uint64_t number, TraceClock::time_point now, TraceEvent::State state);
    std::optional<TraceEvent> read(std::uint64_t number) const;  // none: it has been overwritten

   private:
    std::atomic<std::uint64_t> number_{0};  // of the operation, from 1; 0: it is being written
    std::atomic<std::uint64_t> order_, group_, seq_, count_, bytes_;
    std::atomic<std::int32_t> root_;
    std::atomic<OpKind> op_;
    std::atomic<DType> dtype_;
    std::atomic<ReduceOp> reduce_op_;
    std::atomic<std::uint32_t> user_op_;
    std::atomic<TraceClock::rep> start_, end_;
    std::atomic<TraceEvent::State> state_;
    std::atomic<const char*> algorithm_;
  };

  struct Ring {
    std::array<Slot, kEvents> slots;
    std::atomic<std::uint64_t> begun{0};

    Slot& slot(std::uint64_t number) { return slots[number % kEvents]; }
    const Slot& slot(std::uint64_t number) const { return slots[number % kEvents]; }
    void add_to(std::vector<TraceEvent>& events) const;
  };
  Ring& ring_of(const Fingerprint& operation);
  [[gnu::noinline]] void end_timed(std::uint64_t ticket, const Subject& subject, TraceClock::time_point start,
                                   TraceEvent::State state);

  const std::shared_ptr<TraceLog> log_;
  const std::uint32_t group_in_log_;
  Ring collectives_, messages_;
};

// --- The trace file: trace_file.cc. All operations of all ranks in the JSON of Chrome's trace viewer, which Perfetto
// (ui.perfetto.dev) opens too.
//
// One object: "traceEvents", "displayTimeUnit" and "otherData". Ranks are processes (pid = rank), groups are threads of
// them (tid), of which each has a second one for its messages. An operation is a complete event ("ph": "X") named after
// it, with seq, type, count, bytes, root or tag, algorithm and state in "args". "ts" and "dur" are in microseconds
// since the first operation of any rank began, by rank 0's clock. Format: "Trace Event Format", Google, 2016.

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
