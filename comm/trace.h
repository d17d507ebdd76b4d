// Trace: what a group has done lately, for the moment when it fails; and, if asked for, everything a rank has done.
//
// FlightRecorder is always on: a ring of the latest operations of one group. It costs two short locks, a copy of an
// event and two looks at the clock, some 50 ns together. TraceLog collects all operations of all groups of a rank for
// the trace file (ProcessGroupOptions::trace_file); trace_file.h says what that looks like.
//
// Times are of the rank's steady clock. Thread-safety: all methods may be called from any thread.
#pragma once

#include <tutti/comm/base/fast_clock.h>
#include <tutti/comm/transport/frame.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::comm {

using TraceClock = FastClock;

/// Of an algorithm; what is longer is cut off.
class AlgorithmName {
 public:
  static const AlgorithmName kNone;  // of messages

  constexpr AlgorithmName() = default;
  constexpr explicit AlgorithmName(std::string_view name) {
    for (std::size_t i = 0; i < name.size() && i + 1 < text_.size(); ++i) text_[i] = name[i];
  }
  const char* text() const { return text_.data(); }

 private:
  std::array<char, 23> text_{};  // zero-terminated
};

inline constexpr AlgorithmName AlgorithmName::kNone;

struct TraceEvent {
  enum class State : std::uint8_t { Running, Done, Failed };

  Fingerprint operation;           // root holds the tag of a message
  std::uint64_t bytes = 0;         // of the larger of the caller's buffers
  TraceClock::time_point start{};  // when the operation's turn came
  TraceClock::time_point end{};    // meaningless while it runs
  State state = State::Running;
  AlgorithmName algorithm{};  // "" for messages

  bool is_message() const { return operation.op == OpKind::Send || operation.op == OpKind::Recv; }

  /// "all_reduce seq 17 (sum float32 x 100) by ring: 1.250 ms", "...: failed after 3.1 s", "...: running for 3.1 s".
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

/// The latest operations of one group. Times and states are written where they are kept.
class FlightRecorder {
 public:
  static constexpr std::size_t kEvents = 64;

  /// `log` may be null; else it gets every operation that ends.
  FlightRecorder(const std::string& group, std::shared_ptr<TraceLog> log);

  /// What an operation is, for as long as it runs.
  struct Subject {
    const Fingerprint& operation;
    std::uint64_t bytes = 0;
    const AlgorithmName& algorithm;
  };

  /// Notes that an operation has started; returns what end() wants.
  std::uint64_t begin(const Subject& subject, TraceClock::time_point start);
  /// Notes that it has ended, now.
  void end(std::uint64_t ticket, const Subject& subject, TraceClock::time_point start, TraceEvent::State state);

  /// Up to `count` of the latest operations, oldest first.
  std::vector<TraceEvent> latest(std::size_t count = kEvents) const;

 private:
  class Lock;

  const std::shared_ptr<TraceLog> log_;
  const std::uint32_t group_in_log_;
  mutable std::atomic_flag busy_;  // held for the copy of one event, or of all when somebody looks
  std::uint64_t begun_ = 0;
  std::array<TraceEvent, kEvents> events_;
};

}  // namespace tutti::comm
