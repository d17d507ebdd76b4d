// Agents of one job on this host, over loopback: what tests of `tutti run` on several nodes have in common.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <tutti/tools/run/reserved_port.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tutti_program.h"

namespace tutti::test {

/// A port that nobody else is given while this object lives; an agent can listen on it.
using MeetingPort = tools::ReservedPort;

inline std::vector<std::string> with_home(const std::string& secret = "secret of the test") {
  return {"TUTTI_JOB_SECRET=" + secret};
}

/// `tutti run <options> -- sh -c <script>` as one agent.
inline std::unique_ptr<Processes> start_agent(const std::vector<std::string>& options, const std::string& script,
                                              const std::vector<std::string>& environment = with_home()) {
  std::vector<std::string> labelled = options;  // without this host's name
  labelled.insert(labelled.end(), {"--label", "[rank ${rank}] "});
  return std::make_unique<Processes>(ProcessesOptions{
      .command = run_command(labelled, script), .count = 1, .ranks = false, .environment = environment});
}

/// Options of static rendezvous on 127.0.0.1.
inline std::vector<std::string> static_options(const MeetingPort& port, int nnodes, int node_rank,
                                               const std::vector<std::string>& more = {"-n", "2"}) {
  std::vector<std::string> options{"--nnodes",      std::to_string(nnodes),
                                   "--node-rank",   std::to_string(node_rank),
                                   "--master-addr", "127.0.0.1",
                                   "--master-port", std::to_string(port.port())};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

/// Two agents of static rendezvous, each with two ranks.
class TwoAgents {
 public:
  explicit TwoAgents(const std::string& script, const std::vector<std::string>& more = {"-n", "2"})
      : port_("127.0.0.1"),
        first_(start_agent(static_options(port_, 2, 0, more), script)),
        second_(start_agent(static_options(port_, 2, 1, more), script)) {}

  Processes& first() { return *first_; }
  Processes& second() { return *second_; }
  const MeetingPort& port() const { return port_; }

  /// Until all four ranks have printed `line` (and the table has been shown).
  bool wait_for_line(const std::string& line) {
    bool seen = true;
    for (int rank = 0; rank < 4; ++rank) {
      const std::string text = "[rank " + std::to_string(rank) + "] " + line;
      seen = seen && (rank < 2 ? first() : second()).wait_for_output(0, text);
    }
    return seen && first().wait_for_error(0, "cores");
  }

 private:
  MeetingPort port_;
  std::unique_ptr<Processes> first_, second_;
};

/// Numbers that follow `word` in lines of a text.
inline std::vector<pid_t> numbers_after(const std::string& text, const std::string& word) {
  std::vector<pid_t> numbers;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    numbers.push_back(std::stoi(text.substr(at + word.size())));
  return numbers;
}

inline std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace tutti::test
