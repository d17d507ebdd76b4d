// Session: runs a submission's function on all ranks of a world, each a confined process, on the virtual network.
//
// A Session is the processes of one world size; it is used for case after case, until something goes wrong with one of
// them, which ends it. It believes nothing that a process says but the contents of its buffers.
//
// Threads: one. Blocks until the run has ended: a rank that computes for longer than Patience::between_calls of
// processor time, or is silent for longer than Patience::silence, is stopped, so that every run ends.
// Throws std::runtime_error where this machine cannot run a submission at all; what a submission does wrong is a
// result.
#pragma once

#include <tutti/tools/labs/last_words.h>
#include <tutti/tools/labs/rank_link.h>
#include <tutti/tools/labs/referee.h>

#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tutti::labs {

struct Patience {
  std::chrono::nanoseconds between_calls = std::chrono::seconds(2);  // processor time
  std::chrono::nanoseconds silence = std::chrono::seconds(60);       // without a call of any rank
};

class Session {
 public:
  /// Starts the processes. `program` is what compile() made, `empty_folder` their root. They are killed at the end.
  Session(const std::filesystem::path& program, const std::filesystem::path& empty_folder, int world_size,
          const Limits& limits = {}, const Patience& patience = {});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  RunResult run(const Question& question, RunObserver* observer = nullptr);

  /// Whether another run may follow: no incident yet.
  bool is_usable() const { return !broken_; }

  /// Names of the functions that the submission registered; starts the conversation. Empty after an incident, which the
  /// next run() then returns.
  std::vector<std::string> functions();

 private:
  enum class State { Starting, Ready, Running, Blocked, Done, Gone };

  struct Rank {
    std::unique_ptr<RankLink> link;
    State state = State::Starting;
    std::map<std::uint64_t, Network::Operation> handles{};  // requests that were not waited for yet
    std::uint64_t awaited_handle = 0;                       // 0: of a blocking send or receive
    std::string last_call{};
    double blocked_since = 0;
    std::optional<std::chrono::nanoseconds> cpu_mark{};  // what it had used when it was first seen busy since then
  };

  using Message = RankLink::Message;

  // session.cc: processes and time.
  void send_calls();
  void loop_while(std::initializer_list<State> states);
  bool is_any(std::initializer_list<State> states) const;
  void wait_for_activity();
  void look_at_clocks();
  void lost(int rank);
  void fail(Incident incident);
  void take_event();
  void collect_output();

  // session_requests.cc: what ranks ask for.
  void take_messages(int rank);
  void handle(int rank, Message& message);
  void handle_post(int rank, Message& message);
  void handle_mark(int rank, const protocol::Request& request);
  void handle_trace(int rank, const Message& message);
  void handle_last_words(int rank, const Message& message);
  void take_buffers(int rank, const Bytes& payload);
  bool begin_operation(int rank, Message& message, Network::Operation& operation);
  void block(int rank, Network::Operation operation, std::uint64_t handle);
  void resume(int rank, Network::Operation operation);
  void reply(int rank, protocol::Reply reply, const Bytes& payload);
  void protocol_broken(int rank, const std::string& what);
  Whereabouts whereabouts(int rank) const;

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  int world_size() const { return static_cast<int>(ranks_.size()); }

  std::vector<Rank> ranks_;
  std::string registered_;  // what rank 0 announced
  Patience patience_;
  bool broken_ = false;
  std::optional<Incident> early_incident_{};  // before the first run

  // Of the run in progress.
  const Question* question_ = nullptr;
  std::size_t calls_ = 0;
  std::size_t buffers_per_call_ = 0;
  std::optional<Network> network_{};
  RunResult result_{};
  RunObserver* observer_ = nullptr;
  std::chrono::steady_clock::time_point last_sign_{};
  std::chrono::steady_clock::time_point last_look_{};
};

}  // namespace tutti::labs
