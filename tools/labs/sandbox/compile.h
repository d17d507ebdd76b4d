// Compiles a submission, under limits, by the grader's own command: never by a build file of the student's.
//
// The students' header and the driver are embedded in the grader (embedded.h), and made once for all submissions
// (prebuilt.h). A submission becomes one static executable with them, so that grading needs a C++ compiler and nothing
// else of Tutti. The compiler runs under limits (limited_command.h). It is the only thing that runs outside of the
// sandbox; no part of a submission does.
#pragma once

#include <tutti/tools/labs/sandbox/limited_command.h>
#include <tutti/tools/labs/sandbox/workplace.h>

#include <filesystem>
#include <string>

namespace tutti::labs {

struct Compiled {
  bool is_good = false;
  std::filesystem::path program{};
  std::string messages{};  // the compiler's, with the submission's own file name; cut
  std::string reason{};    // if it is not good: a sentence
};

/// Compiles `source`. Throws std::runtime_error if there is no compiler, or no static C++ library for it: that is not
/// the submission's fault, and the text says what to install.
Compiled compile(const std::filesystem::path& source, const Workplace& workplace, const CommandLimits& limits = {});

/// The compiler: TUTTI_LAB_COMPILER, else the one this program was built with, else c++, g++ or clang++ of the path.
std::string compiler();

}  // namespace tutti::labs
