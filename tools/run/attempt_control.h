// How the other nodes of a job reach into an Attempt: what happens there comes in, and failures here go out. A job on
// one host has none. Called from the Attempt's poll loop only, on the launcher's main thread, and must not block.
#pragma once

#include <tutti/tools/run/report.h>

#include <optional>

namespace tutti::tools {

struct AttemptOrder {
  enum class Kind {
    Settle,     // ranks elsewhere have failed: as if one of ours had
    Terminate,  // SIGTERM now and the time that it has after a SIGTERM to the launcher
    Kill,       // SIGKILL now
    Signal,     // give `signal` to the ranks, as if the launcher had got it for the first time
  };
  Kind kind = Kind::Settle;
  int signal = 0;
};

class AttemptControl {
 public:
  virtual ~AttemptControl() = default;

  /// Readable when next_order() has something to give.
  virtual int fd() const = 0;
  virtual std::optional<AttemptOrder> next_order() = 0;

  /// A rank has ended otherwise than well, and of itself.
  virtual void rank_failed(const RankEnd& rank) = 0;
  /// A forwarded signal has come to this launcher. `again`: the second that asks to end.
  virtual void signal_came(int signal, bool again) = 0;
};

}  // namespace tutti::tools
