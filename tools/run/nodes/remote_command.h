// RemoteCommand: one `ssh HOST tutti run --agent` of a launcher, as a child process whose standard input gets the
// settings and then stays open, and whose output is shown line by line. What the remote shell prints before the agent
// has begun (a banner) is kept for error texts, and shown on standard error only.
//
// Thread-safety: the launcher's poll loop.
#pragma once

#include <tutti/comm/wire/socket.h>
#include <tutti/tools/run/rank_output.h>
#include <tutti/tools/run/spawn.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::tools {

/// What the remote shell prints before the agent has begun goes to standard error, with the host; then lines are the
/// ranks', and go on as they are.
class RemoteLines final : public LinePrinter {
 public:
  RemoteLines(std::string host, const LaunchOptions& options, const JobEnvironment& job, Console& console)
      : LinePrinter(options, job, console), host_(std::move(host)) {}

  void print(int local_rank, Stream stream, std::string_view line) override;
  bool begun() const { return begun_[0] || begun_[1]; }

 private:
  const std::string host_;
  bool begun_[2] = {false, false};  // by stream
};

class RemoteCommand {
 public:
  RemoteCommand(std::string host, Console& console) : host_(std::move(host)), console_(console) {}
  RemoteCommand(const RemoteCommand&) = delete;
  RemoteCommand& operator=(const RemoteCommand&) = delete;

  /// Not while it runs. Throws what spawn_rank throws.
  void start(SpawnPlan plan, std::string settings, const SignalGuard& signals, const Keeper& keeper);

  void add_poll_entries(std::vector<pollfd>& entries) const;
  bool handle(const pollfd& entry);  // true if it was ours

  bool running() const { return pid_ > 0 && !ended_; }
  bool begun() const { return lines_ && lines_->begun(); }
  /// True once after it has ended.
  bool note_end();
  /// "'ssh' to node1 ended with status 255; it printed: ..."
  std::string state() const;

  void close_input() { input_.close(); }
  /// Kills what is left of it, and reaps.
  void end(const Keeper& keeper);

 private:
  void write_settings();

  const std::string host_;
  Console& console_;
  std::string name_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int wait_code_ = 0;  // si_code and si_status
  int wait_status_ = 0;
  comm::Socket input_;
  std::string settings_;
  std::size_t written_ = 0;
  std::optional<RemoteLines> lines_;
  std::optional<RankOutput> output_;
};

}  // namespace tutti::tools
