// The lab `layouts`: whether the student's commands place tasks as the exercise asks, and whether the student's table
// says where they run (check.cc). What a command does is looked up in exercises/layouts/slurm.txt, which a real Slurm
// has filled in.
//
// Commands that call srun are read as far as the lab understands them: one plain command a line, its options as
// Slurm's manual pages spell them. What is not understood is refused with a sentence, never guessed at.
//
// Pure functions, but for check() and read_script(); those that read throw LineError.
#pragma once

#include <tutti/tools/labs/lab_definition.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::labs::layouts {

/// Grades the folder.
Report check(const CheckContext& context);

/// A sentence for the student about one line.
class LineError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Step {
  std::string options{};  // in one spelling, which does not depend on the student's: canonical()
  std::string text{};     // the line, for messages
};

/// The srun lines of a script, and what its #SBATCH lines ask for; lines of other commands are passed over.
struct Script {
  std::string job{};  // options of all #SBATCH lines, in the spelling of canonical()
  std::vector<Step> steps{};
};
Script read_script(const std::filesystem::path& file);

/// One line that begins with srun.
Step read_srun(std::string_view line);

/// "-n9 --nodes 3" becomes "--nodes=3 --ntasks=9": the options that decide a layout, in a fixed order; of two equal
/// ones the later counts.
std::string canonical(std::string_view options);

}  // namespace tutti::labs::layouts
