// ControlLink: an agent's connection to the control store, driven by threads so that the agent's poll loop never
// blocks: one listens to the coordinator's log, one sends messages and heartbeats, one watches that these are answered.
//
// Events wait in a queue; fd() (an eventfd) is readable while there are any. The coordinator is lost when its
// connection breaks, or when it has answered nothing for NodeOptions::silence. Thread-safety: methods belong to one
// thread, the agent's main one; signals must be blocked before the constructor runs (its threads inherit the mask).
#pragma once

#include <tutti/tools/run/nodes/messages.h>
#include <tutti/tools/run/nodes/node_options.h>

#include <memory>
#include <optional>
#include <string>

namespace tutti::tools {

struct LinkEvent {
  enum class Kind {
    Connected,  // the store has been reached; the hello is on its way
    Waiting,    // it has not, so far; `text` says what was tried
    Message,    // `words`, from the coordinator
    Lost,       // for good; `text` says why
  };
  Kind kind = Kind::Message;
  Words words;
  std::string text;
};

class ControlLink {
 public:
  /// Begins to connect to options.host and port, until options.join_timeout has passed; then says hello. Where `hosts`
  /// are given they are tried in turn: one of them is the store's, others may be somebody else's.
  ControlLink(const NodeOptions& options, std::string job_secret, Hello hello, std::vector<std::string> hosts = {});
  /// Says goodbye. Returns within about a second.
  ~ControlLink();
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  int fd() const;
  std::optional<LinkEvent> next();

  /// The coordinator counts as lost. May be called from any thread.
  void lose(const std::string& why);

  void post(Words message);
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
