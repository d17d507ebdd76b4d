// Runs a command of the grader's own under limits and takes in what it says.
#pragma once

#include <tutti/tools/labs/sandbox/compile.h>

#include <string>
#include <vector>

namespace tutti::labs {

struct CommandResult {
  int status = 0;  // as waitpid() gives it
  std::string output{};
  bool is_out_of_time = false;
  bool is_too_talkative = false;
};

/// `arguments[0]` is looked for in the path. Standard input is empty, the working folder is `folder`, which is also the
/// place of temporary files. Whatever it has started is killed at the end. Throws std::runtime_error if it cannot be
/// started. Blocks at most limits.wall.
CommandResult run_limited(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                          const CompileLimits& limits);

}  // namespace tutti::labs
