#include <signal.h>
#include <tutti/comm/base/format.h>
#include <tutti/tools/run/report.h>
#include <tutti/tools/run/signals.h>

namespace tutti::tools {
namespace {

std::string who(const RankEnd& rank) {
  return "rank " + std::to_string(rank.rank) + " (pid " + std::to_string(rank.pid) +
         (rank.host.empty() ? "" : " on " + rank.host) + ")";
}

std::string after(const RankEnd& rank) {
  return comm::format(" after %.1f s", std::chrono::duration<double>(rank.ended - rank.started).count());
}

bool earlier(const RankEnd& a, const RankEnd* b) { return b == nullptr || a.ended < b->ended; }

}  // namespace

std::optional<int> find_culprit(std::span<const RankEnd> ranks) {
  const RankEnd* first = nullptr;
  for (const RankEnd& rank : ranks) {
    if (rank.failed() && earlier(rank, first)) first = &rank;
  }
  if (first == nullptr) return std::nullopt;
  const RankEnd* killed = nullptr;
  for (const RankEnd& rank : ranks) {
    const bool in_time = rank.ended <= first->ended + kSettleTime;
    if (rank.failed() && rank.by_signal && in_time && earlier(rank, killed)) killed = &rank;
  }
  return static_cast<int>((killed != nullptr ? killed : first) - ranks.data());
}

std::string describe(const RankEnd& rank) {
  if (rank.running) return who(rank) + " is still running and could not be stopped";
  if (!rank.by_signal) return who(rank) + " exited with status " + std::to_string(rank.code) + after(rank);
  if (rank.sent.contains(rank.code)) {
    return who(rank) + " was stopped with " + signal_name(rank.code) + after(rank) +
           (rank.frozen ? "; it was frozen (SIGSTOP or a debugger)" : "");
  }
  return who(rank) + " was killed by " + signal_name(rank.code) + " (signal " + std::to_string(rank.code) + ")" +
         after(rank);
}

std::string describe_other(const RankEnd& rank) {
  constexpr std::size_t kMost = 240;
  if (rank.last_lines.empty()) return describe(rank);
  const std::string& last = rank.last_lines.back();
  return describe(rank) + "; its last line: " + last.substr(0, kMost) + (last.size() > kMost ? "..." : "");
}

std::string first_sentence(std::span<const RankEnd> ranks, int culprit) {
  const RankEnd& failed = ranks[static_cast<std::size_t>(culprit)];
  if (failed.by_signal) return describe(failed);
  for (const RankEnd& rank : ranks) {
    if (rank.frozen) {
      return who(rank) + " was frozen (SIGSTOP or a debugger) and the others gave up: " + describe(failed);
    }
  }
  return describe(failed);
}

std::string hint(const RankEnd& culprit) {
  if (!culprit.evidence.empty()) return culprit.evidence;
  if (culprit.by_signal && culprit.code == SIGKILL) {
    return "  This launcher did not send it. The kernel's out-of-memory killer does (dmesg tells), and users do.\n";
  }
  if (culprit.by_signal && culprit.core_dumped) return "  It left a core dump.\n";
  if (!culprit.by_signal && culprit.code > 128 && culprit.code <= 128 + SIGRTMAX) {
    return "  A shell gives status " + std::to_string(culprit.code) + " when a program it started was killed by " +
           signal_name(culprit.code - 128) + "." +
           (culprit.code - 128 == SIGTERM ? " 'tutti train' ends so when it was asked to end and wrote a checkpoint."
                                          : "") +
           "\n";
  }
  return "";
}

}  // namespace tutti::tools
