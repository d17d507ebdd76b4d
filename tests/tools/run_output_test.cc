// What the output of ranks looks like and where it goes: log files, filters, labels.

#include <gtest/gtest.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/tools/run/ranges.h>

#include "test_folder.h"
#include "tutti_program.h"

namespace tutti::test {
namespace {

/// A folder for the log files of one run.
struct LogFolder : TestFolder {
  std::string file(const std::string& name) const {
    return content(std::filesystem::directory_iterator(path())->path() / name);
  }
};

constexpr char kBothStreams[] = "echo out $RANK; echo err $RANK >&2";

TEST(Ranges, ReadAndWritten) {
  EXPECT_EQ(tools::parse_ranges("0,2-4,3"), (std::vector<int>{0, 2, 3, 4}));
  EXPECT_EQ(tools::parse_ranges(""), std::vector<int>{});
  for (const char* text : {"x", "1-", "-1", "3-2", "1,", ",1", "1 2", "9999999"}) {
    EXPECT_EQ(tools::parse_ranges(text), std::nullopt) << text;
  }
  EXPECT_EQ(tools::to_ranges({3, 0, 1, 5, 6}), "0-1,3,5-6");
}

TEST(RunOutput, ALogFolderAloneTakesEverything) {
  const LogFolder logs;
  const Finished run = tutti_run({"-n", "2", "--log-dir", logs.path()}, kBothStreams);
  EXPECT_EQ(run.out + run.err, "");
  EXPECT_EQ(logs.file("attempt_0/1/stdout.log"), "out 1\n");
  EXPECT_EQ(logs.file("attempt_0/1/stderr.log"), "err 1\n");
}

TEST(RunOutput, RedirectsAndTeesAreTorchruns) {
  const LogFolder logs;
  const Finished run = tutti_run({"-n", "2", "--log-dir", logs.path(), "-r", "1", "-t", "2"}, kBothStreams);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(sorted_lines(run.err), (Words{"[rank 0] err 0", "[rank 1] err 1"}));
  EXPECT_EQ(logs.file("attempt_0/0/stdout.log"), "out 0\n");
  EXPECT_EQ(logs.file("attempt_0/0/stderr.log"), "err 0\n");
  EXPECT_EQ(logs.file("attempt_0/1/stdout.log"), "out 1\n");
  EXPECT_EQ(logs.file("attempt_0/1/stderr.log"), "err 1\n");
}

TEST(RunOutput, EachRestartHasItsOwnLogFiles) {
  const LogFolder logs;
  const Finished run = tutti_run({"-n", "1", "--log-dir", logs.path(), "--max-restarts", "1"},
                                 "echo try $TORCHELASTIC_RESTART_COUNT; exit 6");
  EXPECT_EQ(run.status, exited(6)) << "it gives up after the last restart";
  EXPECT_EQ(logs.file("attempt_0/0/stdout.log"), "try 0\n");
  EXPECT_EQ(logs.file("attempt_1/0/stdout.log"), "try 1\n");
}

TEST(RunOutput, FiltersChooseWhatIsShown) {
  EXPECT_EQ(tutti_run({"-n", "3", "--ranks-filter", "1"}, "echo $RANK").out, "[rank 1] 1\n");
  EXPECT_EQ(sorted_lines(tutti_run({"-n", "3", "--ranks-filter", "0,2"}, "echo $RANK").out),
            (Words{"[rank 0] 0", "[rank 2] 2"}));
}

TEST(RunOutput, AFilteredRankThatFailsIsStillQuoted) {
  const Finished run = tutti_run({"-n", "2", "--ranks-filter", "0"}, "if [ $RANK = 1 ]; then echo bad; exit 3; fi");
  expect_parts(run.err, {"    | bad\n"});
}

TEST(RunOutput, ALabelThatIsAskedForNamesRankOrHost) {
  const std::string host = comm::host_name();
  EXPECT_EQ(tutti_run({"-n", "1", "--label", "rank"}, "echo x").out, "[rank 0] x\n");
  EXPECT_EQ(tutti_run({"-n", "1", "--label", "host"}, "echo x").out, "[" + host.substr(0, host.find('.')) + "/0] x\n");
}

}  // namespace
}  // namespace tutti::test
