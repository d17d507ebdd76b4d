// What agents and coordinator say to each other through the control store.
//
// Two ordered logs of messages: agents post to the coordinator's inbox, the coordinator posts to a log that every agent
// reads from its beginning. So there is one order of events, the coordinator's, and a message to all is one store call.
// No secret travels: whoever can open the store has it already.
//
// A message is a list of words (words.h). Values and pure functions; reading throws comm::Error{Protocol}.
#pragma once

#include <tutti/tools/run/nodes/words.h>
#include <tutti/tools/run/report.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::tools {

// ---- agent to coordinator -------------------------------------------------------------------------------------------

/// The first message of an agent: what it brings, and the settings in which all agents must agree.
struct Hello {
  std::optional<int> node_rank;
  bool is_coordinators = false;  // it lives in the coordinator's process
  std::string host;              // for people; addresses travel as numbers
  int pid = 0;
  std::string address;  // its end of the connection to the control store
  int nproc = 1;        // 0: a launcher of remote agents, which only listens and asks
  int cores = 1;
  std::uint16_t reserved_port = 0;                            // without a store of ours: for rank 0, if it is here
  std::vector<std::pair<std::string, std::string>> settings;  // name and value
};

/// All ranks of the node run. In order of local rank.
struct Started {
  int round = 0;
  std::vector<int> pids;
  std::vector<std::string> cores;  // that each is pinned to: "0-3"; none where they are not
};

/// A rank has failed of itself; more may follow in Ended.
struct Failed {
  int round = 0;
};

/// Nothing of the node's ranks runs any more.
struct Ended {
  int round = 0;
  std::string cannot_start;  // not "": why no rank ran, with `status` to end with
  int status = 0;
  std::vector<RankEnd> ranks;     // times are on the receiver's clock
  int first_failed = -1;          // the rank that failed first on this node; -1: none did ...
  std::string hint;               // ... what the node knows about its end ...
  std::vector<std::string> tail;  // ... and its last lines
};

/// A signal that asks to end has come to this agent (again: for the second time).
struct Interrupted {
  int signal = 0;
  bool again = false;
};

/// SIGUSR1 and the like have come to the coordinator's agent, and are meant for all nodes.
struct Forwarded {
  int signal = 0;
};

/// From a launcher of remote agents: one of them cannot be started, so waiting for it makes no sense.
struct GiveUp {
  std::string text;
  bool had_begun = false;  // the agent ran, and has ended
};

// ---- coordinator to agents ------------------------------------------------------------------------------------------

struct NodePlace {
  int agent = 0;
  std::string host;
  int pid = 0;
  std::string address;
  int nproc = 1;
  int cores = 1;
  int first_rank = 0;
};

/// A round begins: the table that every agent gets equally. Nodes in order of GROUP_RANK.
struct RoundPlan {
  int round = 0;
  int restart_count = 0;
  int world_size = 0;
  std::string job_id;
  std::string about;        // where the agents meet, who coordinates, and whence that is known; for people
  std::string master_addr;  // "": the address at which each agent has reached the control store
  std::uint16_t master_port = 0;
  std::vector<NodePlace> nodes;
  std::uint16_t control_port = 0;  // of an elastic job's control store, at the address of the agents' one; else 0
  std::uint16_t store_port = 0;    // of Tutti's store; 0: the launcher serves none

  /// This agent's index in nodes; nothing for a spare one.
  std::optional<int> node_of(int agent) const;
};

/// What the ranks of a round are to meet with.
struct Order {
  enum class Kind {
    Settle,     // a rank or node has failed: end by yourselves soon
    Terminate,  // the nodes of the job change: SIGTERM and the time for a checkpoint
    Kill,       // at once
    Signal,     // pass it on
  };
  int round = 0;
  Kind kind = Kind::Settle;
  int signal = 0;
};

/// A round is over.
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

/// The agent cannot take part.
struct Refusal {
  std::string text;
};

// ---- on the wire ----------------------------------------------------------------------------------------------------

Words to_words(const Hello& message);
Words to_words(const Started& message);
Words to_words(const Failed& message);
Words to_words(const Ended& message, RankEnd::Clock::time_point now);
Words to_words(const Interrupted& message);
Words to_words(const Forwarded& message);
Words to_words(const GiveUp& message);
Words to_words(const RoundPlan& message);
Words to_words(const Order& message);
Words to_words(const Verdict& message);
Words to_words(const Notice& message);
Words to_words(const Refusal& message);

Hello to_hello(const Words& words);
Started to_started(const Words& words);
Failed to_failed(const Words& words);
Ended to_ended(const Words& words, RankEnd::Clock::time_point now);
Interrupted to_interrupted(const Words& words);
Forwarded to_forwarded(const Words& words);
GiveUp to_give_up(const Words& words);
RoundPlan to_round_plan(const Words& words);
Order to_order(const Words& words);
Verdict to_verdict(const Words& words);
Notice to_notice(const Words& words);
Refusal to_refusal(const Words& words);

}  // namespace tutti::tools
