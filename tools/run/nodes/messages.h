// What agents and coordinator say to each other through the control store.
//
// Two ordered logs of letters: agents post to the coordinator's inbox, the coordinator posts to a log that every agent
// reads from its beginning. So there is one order of events, the coordinator's, and a message to all is one store call.
// No secret travels: whoever can open the store has it already.
//
// On the wire a letter is a JSON object, as CBOR (RFC 8949), since what ranks print may hold any bytes. A message of it
// is an object with a "kind". Values and pure functions; decoding throws comm::Error{Protocol}.
#pragma once

#include <tutti/tools/run/report.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tutti::tools {

// ---- agent to coordinator -------------------------------------------------------------------------------------------

/// The first message of an agent: what it brings, and the settings in which all agents must agree.
struct Hello {
  std::optional<int> node_rank{};
  bool is_coordinators = false;  // it lives in the coordinator's process
  std::string host{};            // for people; addresses travel as numbers
  int pid = 0;
  std::string address{};  // its end of the connection to the control store
  int nproc = 1;          // 0: a launcher of remote agents, which only listens and asks
  int cores = 1;
  std::uint16_t reserved_port = 0;                              // without a store of ours: for rank 0, if it is here
  std::vector<std::pair<std::string, std::string>> settings{};  // name and value
};

/// How the node's ranks fare: the first report says that all of them run, the last that nothing of them does.
struct Report {
  int round = 0;
  std::vector<RankEnd> ranks{};  // those that have changed; in the last report all. Times are on the receiver's clock
  bool over = false;             // the last one
  std::string cannot_start{};    // not "": why no rank ran, with `status` to end with
  int status = 0;
};

/// A signal has come to this agent: one that asks to end (again: for the second time), or to the coordinator's agent
/// another, as SIGUSR1, which is meant for all nodes.
struct Signalled {
  int signal = 0;
  bool again = false;
};

/// From a launcher of remote agents: one of them cannot be started, so waiting for it makes no sense.
struct GiveUp {
  std::string text;
  bool had_begun = false;  // the agent ran, and has ended
};

// ---- coordinator to agents ------------------------------------------------------------------------------------------

struct NodePlace {
  int agent = 0;
  std::string host{};
  int pid = 0;
  std::string address{};
  int nproc = 1;
  int cores = 1;
  int first_rank = 0;
};

/// A round begins: the table that every agent gets equally. Nodes in order of GROUP_RANK.
struct RoundPlan {
  int round = 0;
  int restart_count = 0;
  int world_size = 0;
  std::string job_id{};
  std::string about{};        // where the agents meet, who coordinates, and whence that is known; for people
  std::string master_addr{};  // "": the address at which each agent has reached the control store
  std::uint16_t master_port = 0;
  std::vector<NodePlace> nodes{};
  std::uint16_t control_port = 0;  // of an elastic job's control store, at the address of the agents' one; else 0
  std::uint16_t store_port = 0;    // of Tutti's store; 0: the launcher serves none

  /// This agent's index in nodes; nothing for a spare one.
  std::optional<int> node_of(int agent) const;
};

/// What the ranks of a round are to meet with.
struct Order {
  enum class Act {
    Settle,     // ranks elsewhere have failed: as if one of the node's had
    Terminate,  // SIGTERM now and the time that it has after a SIGTERM to the launcher
    Kill,       // SIGKILL now
    Signal,     // give `signal` to the ranks, as if the launcher had got it for the first time
    Rescue,     // of an elastic job: end and start single processes
  };
  struct Start {
    int local_rank = 0;                    // CPUs, logs and labels are this slot's
    int restart_count = 0;                 // for the logs' folder
    std::vector<std::string> environment;  // "NAME=value", on top of the rank's
  };
  int round = 0;
  Act act = Act::Settle;
  int signal = 0;
  std::vector<std::size_t> lost{};    // places of processes whose end is dealt with, and not the job's
  std::vector<std::size_t> frozen{};  // those to be killed
  std::vector<Start> starts{};
};

/// A round is over; or, where no round has begun for it, an agent cannot take part.
struct Verdict {
  int round = 0;
  bool final = true;    // false: another round follows
  int status = 0;       // the exit status of every agent, if final
  std::string summary;  // lines for people; the first sentence names the first cause. "": all is well
};

/// For people, shown by the agent as it is.
struct Notice {
  std::string text;
};

// ---- on the wire ----------------------------------------------------------------------------------------------------

using Message = std::variant<Hello, Report, Signalled, GiveUp, RoundPlan, Order, Verdict, Notice>;

inline constexpr int kToAll = -1;

struct Letter {
  int agent = kToAll;  // that has sent it, or is to read it
  RankEnd::Clock::time_point sent{};
  Message message;
};

std::string encode(const Letter& letter);
/// Times in the message are moved from the sender's clock to this one, as if the letter had taken no time.
Letter decode(const std::string& bytes, RankEnd::Clock::time_point now);

/// Throws comm::Error{Protocol}: "a message between agents makes no sense: <what>".
[[noreturn]] void make_no_sense(const std::string& what);

}  // namespace tutti::tools
