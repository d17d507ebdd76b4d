// How a job of several processes ended: who is to blame, and in which words. Pure functions.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tutti::tools {

struct RankEnd {
  using Clock = std::chrono::steady_clock;
  int rank = 0;   // in the world
  int place = 0;  // among the processes of its host, in the order of their start
  pid_t pid = -1;
  std::string host;  // "" in a job on one host
  std::string cpus;  // that it is pinned to: "0-3"; "" if it is not
  Clock::time_point started{};
  Clock::time_point ended{};
  bool running = true;
  bool by_signal = false;
  bool core_dumped = false;
  int code = 0;           // exit status, or the signal
  bool frozen = false;    // stopped (SIGSTOP, a debugger): as the first rank failed, or of an elastic job now
  std::set<int> sent{};   // signals that the launcher has sent it
  bool replaced = false;  // an elastic job goes on without it, or with another in its place
  std::string evidence;   // what its host knows about its end: whole indented lines (host.h)
  std::vector<std::string> last_lines{};  // that it printed: some of the first to fail on its host, else one
  bool error_told = false;                // the last lines were the text of an error, which has been shown

  /// Ended otherwise than with status 0, not by a signal of the launcher's, and to the job's harm.
  bool failed() const { return !running && !replaced && code != 0 && !(by_signal && sent.contains(code)); }
  /// As a shell gives it.
  int exit_status() const { return by_signal ? 128 + code : code; }
};

/// Ranks that learn of another's death through their connections exit a little later, or as seen from here a little
/// earlier: within this time after the first failure a death by a foreign signal is the cause, not an exit status.
inline constexpr std::chrono::milliseconds kSettleTime{1500};

/// The index of the rank that failed first; nothing if none failed of itself.
std::optional<int> find_culprit(std::span<const RankEnd> ranks);

/// "rank 1 (pid 1234 on node7) was killed by SIGKILL (signal 9) after 3.2 s", "... exited with status 3 after 3.2 s".
std::string describe(const RankEnd& rank);

/// For the ranks that did not cause the end: describe(), and what they said last: often what they were waiting for.
std::string describe_other(const RankEnd& rank);

/// The first sentence, which names the culprit; a frozen rank that made the others give up comes first.
std::string first_sentence(std::span<const RankEnd> ranks, int culprit);

/// What else can be said about the culprit's end: "" or whole indented lines.
std::string hint(const RankEnd& culprit);

}  // namespace tutti::tools
