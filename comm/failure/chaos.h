// Chaos: failures injected at a known moment, for teaching and for tests of recovery.
//
//   kill:rank=1,step=20                the process gets SIGKILL
//   freeze:rank=1,step=20              ... SIGSTOP: it is there, and does nothing, until SIGCONT
//   slow:rank=2,factor=3[,step=20]     from that step on (else the first) each step takes three times as long
//   delay:rank=0,ms=200[,step=20]      that step, else every one, begins 200 ms late
//
// Several are joined by ";". The caller defines a step: `tutti train --chaos` counts steps of training from 0, and
// strikes before the gradients leave; TUTTI_CHAOS counts the collectives of the group of all ranks from 0, and strikes
// before they begin. kill and freeze strike in a rank's first life only, not again after a restart
// (TORCHELASTIC_RESTART_COUNT, the last number of TUTTI_WORKER), so that recovery can be seen.
//
// Each first logs a warning that says what it does. Thread-safety: one thread at a time.
#pragma once

#include <tutti/comm/base/environment.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tutti::comm {

/// The system calls of chaos; tests bring their own.
struct ChaosHands {
  std::function<void(int signal)> raise;
  std::function<void(std::chrono::nanoseconds)> sleep;
  std::function<std::chrono::steady_clock::time_point()> now;
  static ChaosHands real();
};

class Chaos {
 public:
  /// Nothing goes wrong.
  Chaos() = default;
  /// Throws InvalidArgument naming the part of `text` that is not understood. "" is nothing.
  explicit Chaos(const std::string& text, const Environment& environment = process_environment(),
                 ChaosHands hands = ChaosHands::real());

  /// To be called by rank `rank` (of the world) when its step number `step` begins. May not return.
  void begin_step(int rank, std::int64_t step);

  /// Logs a warning for what is to happen to a rank that a world of so many has not.
  void warn_of_absent_ranks(int world_size) const;

  bool empty() const { return events_.empty(); }

 private:
  struct Kind;
  struct Event {
    const Kind* kind = nullptr;
    std::map<std::string, double> settings{};
    std::string text{};
    bool told = false;
  };
  static Event parse(const std::string& text);
  void strike(Event& event, std::int64_t number);

  std::vector<Event> events_;
  bool first_life_ = true;
  ChaosHands hands_;
  std::optional<std::chrono::steady_clock::time_point> step_began_;  // the step before this one
};

}  // namespace tutti::comm
