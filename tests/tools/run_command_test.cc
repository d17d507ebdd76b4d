// The command line of `tutti run` and `tutti`.

#include <gtest/gtest.h>

#include "tutti_program.h"

namespace tutti::test {
namespace {

Finished tutti(std::vector<std::string> words) {
  words.insert(words.begin(), TUTTI_PROGRAM);
  return run_program(words);
}

TEST(Command, VersionAndHelpSucceed) {
  EXPECT_EQ(tutti({"--version"}).status, exited(0));
  EXPECT_EQ(tutti({"--version"}).out.substr(0, 6), "tutti ");
  EXPECT_EQ(tutti({"run", "--help"}).status, exited(0));
}

TEST(Command, WrongUsageIsStatus2WithOneSentenceFirst) {
  const struct {
    std::vector<std::string> words;
    std::string sentence;
  } cases[] = {
      {{}, "tutti: A subcommand is required"},
      {{"run"}, "tutti run: no program given; write tutti run -n 4 -- PROGRAM ARGUMENTS"},
      {{"run", "--bogus", "3", "--", "true"}, "tutti run: unknown option --bogus"},
      {{"run", "-n", "0", "true"}, "tutti run: --nproc-per-node is '0', but must be a number from 1 up, or auto"},
      {{"run", "-n", "x", "true"}, "tutti run: --nproc-per-node is 'x', but must be a number from 1 up, or auto"},
      {{"run", "--nnodes", "2", "true"},
       "tutti run: --nnodes is 2, but this version starts ranks on one host only (--nnodes 1)"},
      {{"run", "--tee", "true"}, "tutti run: --tee needs --log-dir"},
  };
  for (const auto& c : cases) {
    const Finished run = tutti(c.words);
    EXPECT_EQ(run.status, exited(2)) << c.sentence;
    EXPECT_EQ(first_line(run.err), c.sentence);
    EXPECT_EQ(run.out, "");
  }
}

TEST(Command, APortOutOfRangeIsWrongUsage) {
  EXPECT_EQ(tutti({"run", "--master-port", "70000", "true"}).status, exited(2));
}

TEST(Command, TheProgramKeepsItsOwnOptionsAndItsOwnDashes) {
  EXPECT_EQ(tutti({"run", "-n", "1", "echo", "-n", "5", "--", "x"}).out, "5 -- x");
  EXPECT_EQ(tutti({"run", "-n", "1", "--", "echo", "--", "x"}).out, "-- x\n");
}

TEST(Command, AutoStartsARankForEachCpu) {
  const Finished run = tutti({"run", "-n", "auto", "--no-label", "--", "sh", "-c", "echo $WORLD_SIZE"});
  EXPECT_EQ(run.status, exited(0));
  EXPECT_GE(std::stoi(run.out), 1);
}

}  // namespace
}  // namespace tutti::test
