// Agents of one job on this host, over loopback: what tests of `tutti run` on several nodes have in common.
#pragma once

#include <tutti/tools/run/reserved_port.h>

#include "tutti_program.h"

namespace tutti::test {

/// A port that nobody else is given while this object lives; an agent can listen on it.
using MeetingPort = tools::ReservedPort;

inline Words with_home(const std::string& secret = "secret of the test") { return {"TUTTI_JOB_SECRET=" + secret}; }

/// `tutti run <options> -- sh -c <script>` as one agent; its lines are labelled without this host's name.
inline Running start_agent(const Words& options, const std::string& script, const Words& environment = with_home()) {
  return Running(run_command(joined(options, {"--label", "rank"}), script), environment);
}

/// Options of static rendezvous on 127.0.0.1.
inline Words static_options(const MeetingPort& port, int nnodes, int node_rank, const Words& more = {"-n", "2"}) {
  return joined({"--nnodes", std::to_string(nnodes), "--node-rank", std::to_string(node_rank), "--master-addr",
                 "127.0.0.1", "--master-port", std::to_string(port.port())},
                more);
}

/// Two agents of static rendezvous, each with two ranks.
class TwoAgents {
 public:
  explicit TwoAgents(const std::string& script, const Words& more = {"-n", "2"})
      : port("127.0.0.1"),
        first(start_agent(static_options(port, 2, 0, more), script)),
        second(start_agent(static_options(port, 2, 1, more), script)) {}

  /// Until all four ranks have printed `line` (and the table has been shown).
  bool wait_for_line(const std::string& line) {
    return first.prints("[rank 0] " + line) && first.prints("[rank 1] " + line) && second.prints("[rank 2] " + line) &&
           second.prints("[rank 3] " + line) && first.complains("cores");
  }
  void expect_end(int status, std::source_location where = std::source_location::current()) {
    first.expect_end(status, where);
    second.expect_end(status, where);
  }

  const MeetingPort port;
  Running first, second;
};

}  // namespace tutti::test
