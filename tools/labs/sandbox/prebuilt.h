// Prebuilt: what every submission is compiled with, made once and kept: the students' header, precompiled, and the
// grader's driver, as an object.
//
// It is kept in the user's cache ($XDG_CACHE_HOME/tutti/labs, or ~/.cache/tutti/labs). It is made anew if anything that
// it was made from has changed: the compiler, its flags, the headers of the grader or of the system. Graders share it
// by a lock (flock(2)). Where there can be no such folder, it is made in the workplace.
#pragma once

#include <tutti/tools/labs/sandbox/confined_process.h>
#include <tutti/tools/labs/sandbox/limited_command.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tutti::labs {

class Prebuilt {
 public:
  /// By `command`, a compiler and its flags; `scratch` is the workplace. Blocks while another grader makes it. Throws
  /// std::runtime_error if that compiler cannot make it.
  Prebuilt(const std::vector<std::string>& command, const std::filesystem::path& scratch, const CommandLimits& limits);

  /// To be compiled with (-I), and to be linked; there as long as this object.
  std::filesystem::path include() const { return folder_ / "include"; }
  std::filesystem::path driver() const { return folder_ / "driver.o"; }

 private:
  /// Whether it is in `cache` now.
  bool is_in(const std::filesystem::path& cache, const std::filesystem::path& scratch, const CommandLimits& limits);
  std::string origin() const;
  bool is_current() const;
  void make(const std::filesystem::path& scratch, const CommandLimits& limits, bool is_kept) const;

  std::vector<std::string> command_;
  std::filesystem::path folder_;
  Descriptor lock_;
};

/// The path of a program that is named as a shell would be told; empty if there is none that can be run.
std::filesystem::path program_named(const std::string& name);

}  // namespace tutti::labs
