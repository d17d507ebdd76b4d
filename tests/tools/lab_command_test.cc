// `tutti lab` as a student types it. What the grader says of solutions: tests/labs.

#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>

#include <filesystem>
#include <fstream>

#include "tutti_program.h"

namespace tutti::test {
namespace {

class LabCommand : public testing::Test {
 protected:
  /// In a folder of the test's own.
  Finished lab(const std::string& arguments) const { return in(folder_ / "", arguments); }
  Finished in(const std::filesystem::path& folder, const std::string& arguments) const {
    return run_program({"sh", "-c", "cd '" + folder.string() + "' && '" TUTTI_PROGRAM "' lab " + arguments});
  }

  trainer::TemporaryFolder folder_;
};

TEST_F(LabCommand, StartWritesOnceAndOverwritesNothing) {
  EXPECT_EQ(lab("start ring").status, exited(0));
  for (const char* name : {"text.md", "ring.cc", "CMakeLists.txt"}) {
    EXPECT_TRUE(std::filesystem::exists(folder_ / "ring" / name)) << name;
  }
  std::ofstream(folder_ / "ring/ring.cc") << "my work\n";
  expect_failure(lab("start ring"), 1, {"exists already, and may hold your work"});
  EXPECT_EQ(std::filesystem::file_size(folder_ / "ring/ring.cc"), 8u);
}

TEST_F(LabCommand, TheUntouchedSkeletonIsToldWhereToBegin) {
  ASSERT_EQ(lab("start reduce mine").status, exited(0));
  const Finished checked = lab("check reduce mine --json report.json");
  EXPECT_EQ(checked.status, exited(1));
  expect_parts(checked.out, {"reduce() does nothing yet", "Hint:", "0 of 100 points"});
  EXPECT_TRUE(std::filesystem::exists(folder_ / "report.json"));
}

TEST_F(LabCommand, WorksInTheExercisesOwnFolderToo) {
  ASSERT_EQ(lab("start layouts").status, exited(0));
  for (const auto& folder : {folder_ / "", folder_ / "layouts"}) {
    const Finished checked = in(folder, "check layouts");
    expect_parts(checked.out, {"Lab layouts, "});
  }
  expect_failure(lab("check ring"), 1, {"there is no ring/ring.cc: write the skeleton with 'tutti lab start"});
}

TEST_F(LabCommand, WhatIsNoExerciseIsRefusedWithAList) {
  for (const std::string command : {"start", "check", "show"}) {
    expect_failure(lab(command + " ../ring"), 2, {"there is no lab ../ring; there are broadcast, reduce"});
  }
}

}  // namespace
}  // namespace tutti::test
