// Another program, the grader's compiler or curl, under limits: of CPU time, memory and the size of files, in a session
// of its own that is killed as a whole, and its output is cut.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tutti::labs {

struct CommandLimits {
  std::chrono::seconds cpu{60};
  std::chrono::seconds wall{300};
  std::size_t memory_bytes = std::size_t{2} << 30;
  std::size_t file_bytes = std::size_t{256} << 20;
  std::size_t message_bytes = 16 * 1024;  // of its output that are kept
  bool keeps_environment = false;         // else the path is all that it gets of this process's
  std::function<void()> while_waiting{};  // called a few times a second
};

struct CommandResult {
  int status = 0;  // as waitpid() gives it
  std::string output{};
  bool is_out_of_time = false;
  bool is_too_talkative = false;

  bool is_good() const { return status == 0 && !is_out_of_time && !is_too_talkative; }
};

/// `arguments[0]` is looked for in the path. Standard input is empty, the working folder is `folder`, which is also the
/// place of temporary files. Whatever it has started is killed at the end. Throws std::runtime_error if it cannot be
/// started. Blocks at most limits.wall.
CommandResult run_limited(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                          const CommandLimits& limits);

}  // namespace tutti::labs
