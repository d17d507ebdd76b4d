// A training of small data by whole processes, for tests of what happens to it from outside.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tests/support/run_processes.h>
#include <tutti/tests/trainer/small_mnist.h>
#include <tutti/tests/trainer/temporary_folder.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti::trainer {

inline constexpr test::ExitStatus kDone{.by_signal = false, .code = 0};
inline constexpr test::ExitStatus kFailed{.by_signal = false, .code = 1};
inline constexpr test::ExitStatus kStoppedWell{.by_signal = false, .code = 143};

class SmallRun : public testing::Test {
 protected:
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
  nlohmann::json json(const std::string& name) const { return nlohmann::json::parse(read_whole_file(folder_ / name)); }

  /// The report of a run that nothing happened to; two ranks unless said otherwise.
  nlohmann::json uninterrupted(int epochs) const {
    const test::Finished done =
        run(command({"--nproc", "2", "--epochs", std::to_string(epochs), "--json", path("whole.json")}));
    EXPECT_EQ(done.status, kDone) << done.err;
    return json("whole.json");
  }
  /// The same weights, and the same curve bit for bit.
  static void expect_equal(const nlohmann::json& report, const nlohmann::json& whole) {
    EXPECT_EQ(report["parameter_sha256"], whole["parameter_sha256"]);
    ASSERT_EQ(report["epochs"].size(), whole["epochs"].size());
    for (std::size_t e = 0; e < whole["epochs"].size(); ++e) {
      for (const char* key : {"train_loss", "test_loss", "test_accuracy"}) {
        EXPECT_EQ(report["epochs"][e][key], whole["epochs"][e][key]) << "epoch " << e + 1 << " " << key;
      }
    }
  }

  TemporaryFolder folder_;
};

}  // namespace tutti::trainer
