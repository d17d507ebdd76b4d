// A line of a shell script that calls srun, as far as the lab `layouts` understands it: one plain command, its options
// as Slurm's manual pages spell them. What is not understood is refused with a sentence, never guessed at.
//
// Pure functions; they throw LineError.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::labs::layouts {

/// A sentence for the student about one line.
class LineError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Distribution { Block, Cyclic, Plane };

/// What srun, salloc and sbatch have in common here.
struct Options {
  std::optional<int> nodes;           // -N
  std::optional<int> tasks;           // -n
  std::optional<int> tasks_per_node;  // --ntasks-per-node
  std::optional<int> cpus_per_task;   // -c
  std::optional<int> relative;        // -r: first node of a step, counted within its job
  std::vector<std::string> nodelist;  // -w
  std::optional<Distribution> distribution;
  int plane = 0;  // tasks of a plane
  bool exclusive = false;
};

struct CommandLine {
  Options options;
  std::vector<std::string> command;  // what the tasks run
  std::string text;                  // the line, for messages
};

/// One line that begins with srun.
CommandLine read_srun(std::string_view line);

/// What follows "#SBATCH" in a job script, added to `options`.
void read_sbatch(std::string_view text, Options& options);

/// Splits as a shell does: quotes, backslashes and comments. Refuses variables, pipes, redirections and several
/// commands.
std::vector<std::string> words_of(std::string_view line);

}  // namespace tutti::labs::layouts
