// ControlLink: an agent's connection to the control store, driven by threads so that the agent's poll loop never
// blocks: one listens to the coordinator's log, one sends messages and heartbeats, one watches that these are answered.
//
// Events wait in a queue; fd() (an eventfd) is readable while there are any. The coordinator is lost when its
// connection breaks, or when it has answered nothing for NodeOptions::silence. Thread-safety: methods belong to one
// thread, the agent's main one; signals must be blocked before the constructor runs (its threads inherit the mask).
#pragma once

#include <tutti/tools/run/nodes/messages.h>
#include <tutti/tools/run/nodes/node_options.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

namespace tutti::tools {

// Names in the control store. Only agents and their coordinator use these; elastic ranks have keys of their own there.
inline constexpr char kControlJob[] = "tutti-agents";    // the control store's job id, whatever --rdzv-id says
inline constexpr char kAgentCount[] = "agents/count";    // add 1: this agent's number is one less
inline constexpr char kMailHint[] = "agents/mail/next";  // the first inbox slot that may be free
inline constexpr char kLogCount[] = "agents/log/next";   // the first entry of the log that is not written yet
inline constexpr char kNonceKey[] = "agents/meeting";    // tells a published coordinator from another job's on its port

/// Inbox of the coordinator, written with compare_set into the first free slot: no slot stays empty before a full one,
/// and a letter that is sent again, as its first sending seemed to have no answer, finds itself there.
inline std::string mail_key(long slot) { return "agents/mail/" + std::to_string(slot); }
/// What the coordinator says, entry by entry.
inline std::string log_key(long entry) { return "agents/log/" + std::to_string(entry); }
/// A number that grows with each heartbeat.
inline std::string beat_key(int agent) { return "agents/beat/" + std::to_string(agent); }

/// Measures a silence in time in which this process itself could have listened. On a host that is overloaded, or
/// suspended, a listener that has not run for two seconds knows nothing about the speaker. So each look counts no more
/// than twice the time between two looks.
class PatientTimer {
 public:
  using Clock = std::chrono::steady_clock;

  PatientTimer(Clock::duration between_looks, Clock::time_point now) : most_(2 * between_looks), last_look_(now) {}

  /// To be called at every look; `heard`: the other side has given a sign of life since the last one.
  void look(Clock::time_point now, bool heard) {
    silence_ = heard ? Clock::duration::zero() : silence_ + std::min<Clock::duration>(now - last_look_, most_);
    last_look_ = now;
  }

  Clock::duration silence() const { return silence_; }

 private:
  Clock::duration most_;
  Clock::time_point last_look_;
  Clock::duration silence_{};
};

struct LinkEvent {
  enum class Kind {
    Connected,  // the store has been reached; the hello is on its way
    Waiting,    // it has not, so far; `text` says what was tried
    Told,       // `message`, from the coordinator
    Lost,       // for good; `text` says why
  };
  Kind kind = Kind::Told;
  Message message{};
  std::string text;
};

class ControlLink {
 public:
  /// Begins to connect to options.host and port, until options.join_timeout has passed; then says hello. Where
  /// options.addresses are given they are tried in turn: one of them is the store's, others may be another host's. With
  /// options.meeting_file hosts and port are what stands there, again and again: an earlier run may have left the file.
  ControlLink(const NodeOptions& options, std::string job_secret, Hello hello);
  /// Says goodbye. Returns within about a second.
  ~ControlLink();
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  int fd() const;
  std::optional<LinkEvent> next();

  /// The coordinator counts as lost. May be called from any thread.
  void lose(const std::string& why);

  void post(Message message);
  /// Waits until what was posted has been handed over; false if `limit` passes, or the coordinator is lost, first.
  bool flush(std::chrono::milliseconds limit);

  /// Meaningful after Connected: this agent's number, and the numeric address at which it reached the store.
  int agent() const;
  std::string server_address() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::tools
