// Whole `tutti` processes, and trainings of small data by them, for tests of what users see and of what happens to a
// run from outside.
#pragma once

#include <gtest/gtest.h>
#include <tutti/tests/support/run_processes.h>
#include <tutti/tests/trainer/small_mnist.h>
#include <tutti/tests/trainer/temporary_folder.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <source_location>
#include <string>
#include <vector>

namespace tutti::trainer {

inline constexpr test::ExitStatus kDone{.by_signal = false, .code = 0};
inline constexpr test::ExitStatus kFailed{.by_signal = false, .code = 1};
inline constexpr test::ExitStatus kMisused{.by_signal = false, .code = 2};
inline constexpr test::ExitStatus kStoppedWell{.by_signal = false, .code = 143};

using Words = std::vector<std::string>;

/// `words` and behind them `more`.
Words joined(Words words, const Words& more);

/// The number in an environment variable, else `fallback`.
int number_from_environment(const char* name, int fallback);

/// Expects that a process ended so, and passes on what it printed.
test::Finished ended(test::ExitStatus status, test::Finished finished,
                     std::source_location where = std::source_location::current());

/// Words behind `tutti` that cannot be meant (2) or done (1), and a part of the sentence that says so.
struct Refused {
  Words words;
  int status = 2;
  std::string expected;
};

/// Commands in a folder of their own, which find no data anywhere but where --data says.
class TuttiCommand : public testing::Test {
 protected:
  Words environment() const {
    return {"TUTTI_DATA=", "HOME=" + folder_.path().string(), "XDG_CACHE_HOME=" + folder_.path().string()};
  }
  test::Finished run(const Words& words, std::chrono::seconds limit = std::chrono::seconds(60)) const {
    return test::run_program(words, environment(), limit);
  }
  /// One process, or a launcher, as a shell starts it.
  test::ProcessesOptions alone(const Words& words) const {
    return {.command = words, .ranks = false, .environment = environment()};
  }
  /// `count` processes as a launcher starts its ranks.
  test::ProcessesOptions ranks_of(const Words& words, int count = 2) const {
    return {.command = words, .count = count, .environment = environment()};
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// Expects one sentence on stderr, perhaps a hint below it, and nothing else.
  void expect_refusals(const std::vector<Refused>& cases) const;
  /// Expects that each of the two lines of results in `out` says that the data is generated.
  static void expect_results_named_generated(const std::string& out, const std::string& mark);

  TemporaryFolder folder_;
};

class SmallRun : public TuttiCommand {
 protected:
  struct Outcome {
    std::string parameter_sha256;
    std::vector<std::array<double, 3>> epochs;  // train loss, test loss, test accuracy
  };

  SmallRun() { write_small_mnist(folder_ / "mnist", 960, 50); }

  /// `tutti train mnist` on the small set, 60 steps an epoch on two ranks, and `more`.
  Words command(const Words& more, int batch_size = 8) const {
    return joined({TUTTI_PROGRAM, "train", "mnist", "--data", path("mnist"), "--batch-size", std::to_string(batch_size),
                   "--threads", "1"},
                  more);
  }
  /// The same in a folder of checkpoints, with one every 20 steps.
  Words saving(const Words& more) const {
    return joined(command({"--checkpoint-dir", dir().string(), "--checkpoint-every", "20"}), more);
  }
  /// Shell words that continue the run in dir() to the end of the epoch that it is in.
  std::string resuming_in_shell(const std::string& report) const {
    return "exec " + in_one_line(saving({"--nproc", "2", "--resume", "--json", path(report)})) +
           "--epochs $((1 + $(ls " + dir().string() +
           " | grep '^epoch-[-0-9step]*$' | tail -1 | sed 's/epoch-0*\\([0-9][0-9]*\\).*/\\1/')))";
  }
  static std::string in_one_line(const Words& words) {
    std::string line;
    for (const std::string& word : words) line += word + " ";
    return line;
  }
  std::filesystem::path dir() const { return folder_ / "checkpoints"; }
  /// From the report `name` in folder_.
  Outcome outcome(const std::string& name) const;
  /// Of a run that nothing happened to, on two ranks unless `more` says another number.
  Outcome uninterrupted(int epochs, const Words& more = {"--nproc", "2"}, int batch_size = 8) const;
  /// The same weights, and the same curve bit for bit.
  static void expect_equal(const Outcome& run, const Outcome& whole);
  /// The elastic ranks that a launcher or an agent has as children now: worker id -> pid.
  static std::map<std::string, pid_t> workers_of(pid_t launcher);
};

}  // namespace tutti::trainer
