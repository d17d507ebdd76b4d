// A training of small data by whole processes, for tests of what happens to it from outside.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tests/support/run_processes.h>
#include <tutti/tests/trainer/small_mnist.h>
#include <tutti/tests/trainer/temporary_folder.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

namespace tutti::trainer {

inline constexpr test::ExitStatus kDone{.by_signal = false, .code = 0};
inline constexpr test::ExitStatus kFailed{.by_signal = false, .code = 1};
inline constexpr test::ExitStatus kStoppedWell{.by_signal = false, .code = 143};

class SmallRun : public testing::Test {
 protected:
  struct Outcome {
    std::string parameter_sha256;
    std::vector<std::array<double, 3>> epochs;  // train loss, test loss, test accuracy
  };

  SmallRun() { write_small_mnist(folder_ / "mnist", 960, 50); }

  /// `tutti train mnist` on the small set, 60 steps an epoch on two ranks, and `more`.
  std::vector<std::string> command(const std::vector<std::string>& more) const {
    std::vector<std::string> words{TUTTI_PROGRAM,  "train", "mnist",     "--data", (folder_ / "mnist").string(),
                                   "--batch-size", "8",     "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// The same in a folder of checkpoints, with one every 20 steps.
  std::vector<std::string> saving(const std::vector<std::string>& more) const {
    std::vector<std::string> words = command({"--checkpoint-dir", dir().string(), "--checkpoint-every", "20"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// Shell words that continue the run in dir() to the end of the epoch that it is in.
  std::string resuming_in_shell(const std::string& report) const {
    return "exec " + in_one_line(saving({"--nproc", "2", "--resume", "--json", path(report)})) +
           "--epochs $((1 + $(ls " + dir().string() +
           " | grep '^epoch-[-0-9step]*$' | tail -1 | sed 's/epoch-0*\\([0-9][0-9]*\\).*/\\1/')))";
  }
  static std::string in_one_line(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) line += word + " ";
    return line;
  }
  test::Finished run(const std::vector<std::string>& words) const { return test::run_program(words, environment()); }
  std::vector<std::string> environment() const {
    return {"TUTTI_DATA=", "HOME=" + folder_.path().string(), "XDG_CACHE_HOME=" + folder_.path().string()};
  }
  std::filesystem::path dir() const { return folder_ / "checkpoints"; }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// From the report `name` in folder_.
  Outcome outcome(const std::string& name) const;
  /// Of a run on two ranks that nothing happened to.
  Outcome uninterrupted(int epochs) const;
  /// The same weights, and the same curve bit for bit.
  static void expect_equal(const Outcome& run, const Outcome& whole);

  TemporaryFolder folder_;
};

}  // namespace tutti::trainer
