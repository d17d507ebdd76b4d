// Running `tutti train mnist` in every layout of a plan.
//
// Blocks for the whole measurement. Throws std::runtime_error with the layout, the status and the last lines of a run
// that fails or takes longer than kLongestRun; what was started is ended then.
#pragma once

#include <tutti/tools/labs/scaling/results.h>

#include <chrono>
#include <functional>

namespace tutti::labs::scaling {

inline constexpr std::chrono::minutes kLongestRun{30};

/// Layouts take turns, so that what else the host does falls on all of them. `program` is the `tutti` to run.
Results measure(const Plan& plan, const std::filesystem::path& program,
                const std::function<void(const std::string&)>& progress);

/// The arguments of one run, the program's name first.
std::vector<std::string> command_of(const Plan& plan, const Layout& layout, const std::filesystem::path& program,
                                    const std::filesystem::path& run_dir);

}  // namespace tutti::labs::scaling
