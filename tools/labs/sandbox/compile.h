// Compiles a submission, under limits, by the grader's own command: never by a build file of the student's.
//
// The student's header and the driver are embedded in the grader (embedded.h), and compiled together with the
// submission into one static executable, so that grading needs a C++ compiler and nothing else of Tutti. The compiler
// runs with limits on processor time, memory and the size of files, in a session of its own that is killed as a whole,
// and its messages are cut. It is the only thing that runs outside of the sandbox; no part of a submission does.
#pragma once

#include <tutti/tools/labs/sandbox/held_folder.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace tutti::labs {

/// A folder of the grader's own, for the program and for an empty root; deleted with the object.
class Workplace {
 public:
  Workplace();

  const std::filesystem::path& path() const { return folder_.path(); }
  std::filesystem::path empty_folder() const { return path() / "empty"; }

 private:
  HeldFolder folder_;
};

struct CompileLimits {
  std::chrono::seconds cpu{60};
  std::chrono::seconds wall{300};
  std::size_t memory_bytes = std::size_t{2} << 30;
  std::size_t file_bytes = std::size_t{256} << 20;
  std::size_t message_bytes = 16 * 1024;  // of the compiler's messages that are kept
};

struct Compiled {
  bool is_good = false;
  std::filesystem::path program{};
  std::string messages{};  // the compiler's, with the submission's own file name; cut
  std::string reason{};    // if it is not good: a sentence
};

/// Compiles `source`. Throws std::runtime_error if there is no compiler, or no static C++ library for it: that is not
/// the submission's fault, and the text says what to install.
Compiled compile(const std::filesystem::path& source, const Workplace& workplace, const CompileLimits& limits = {});

/// The compiler: TUTTI_LAB_COMPILER, else the one this program was built with, else c++, g++ or clang++ of the path.
std::string compiler();

}  // namespace tutti::labs
