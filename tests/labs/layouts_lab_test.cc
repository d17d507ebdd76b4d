// The lab `layouts` as students hand it in: right folders, and each kind of mistake.

#include <gtest/gtest.h>
#include <tutti/tests/labs/lab_folder.h>
#include <tutti/tools/labs/layouts/grade.h>

#include <string>

namespace tutti::labs::layouts {
namespace {

class LayoutsLab : public ::testing::Test {
 protected:
  LayoutsLab() : folder_("layouts") {
    folder_.append("a.sh", "srun -N 3 --ntasks-per-node=1 /bin/hostname\n");
    folder_.append("b.sh", "srun -N 3 -n 9 /bin/hostname\n");
    folder_.append("c.sh", "srun -w arnold,bruce --ntasks-per-node=3 /bin/hostname\n");
    folder_.write("d.sbatch",
                  "#!/bin/sh\n#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=2\necho here\n"
                  "srun -N 2 \\\n  -n 4 /bin/hostname\nsrun /bin/hostname\n");
    folder_.append("table.txt",
                   "a 0 arnold 0\na 1 bruce 0\na 2 chuck 0\n"
                   "b 0 arnold 0\nb 1 arnold 1\nb 2 arnold 2\nb 3 arnold 3\nb 4 bruce 0\nb 5 bruce 1\nb 6 bruce 2\n"
                   "b 7 bruce 3\nb 8 chuck 0\n"
                   "c 0 arnold 0\nc 1 arnold 1\nc 2 arnold 2\nc 3 bruce 0\nc 4 bruce 1\nc 5 bruce 2\n"
                   "d1 0 arnold 0\nd1 1 arnold 1\nd1 2 bruce 0\nd1 3 bruce 1\n"
                   "d2 0 arnold 0\nd2 1 arnold 1\nd2 2 bruce 0\nd2 3 bruce 1\nd2 4 chuck 0\nd2 5 chuck 1\n");
    folder_.write("answers.txt", "1: 1\n2: arnold\n3: 6\n4: 3\n5: 1\n");
  }

  Report checked() const {
    CheckContext context;
    context.folder = folder_.path();
    return check(context);
  }

  /// The diagnosis of the first finding, and its text.
  std::string found(std::string* text = nullptr) const {
    const Report report = checked();
    const Finding* first = report.first_finding();
    if (first == nullptr) return "";
    if (text != nullptr) *text = first->text;
    return first->diagnosis;
  }

  LabFolder folder_;
};

TEST_F(LayoutsLab, TheRightAnswersHaveFullMarks) {
  std::string text;
  EXPECT_EQ(found(&text), "") << text;
  EXPECT_TRUE(checked().passed());
  EXPECT_EQ(checked().of(), 100);
}

TEST_F(LayoutsLab, AnotherRightCommandNeedsAnotherTable) {
  folder_.write("b.sh", "srun -N 3 -n 9 --ntasks-per-node=3 hostname\n");
  std::string text;
  EXPECT_EQ(found(&text), kWrongTable);
  EXPECT_NE(text.find("rank 3 of b on arnold"), std::string::npos) << text;
  EXPECT_EQ(checked().points(), 92);
}

TEST_F(LayoutsLab, TheUntouchedFolderIsToldWhereToBegin) {
  LabFolder untouched("layouts");
  CheckContext context;
  context.folder = untouched.path();
  const Report report = check(context);
  EXPECT_EQ(report.points(), 0);
  ASSERT_NE(report.first_finding(), nullptr);
  EXPECT_EQ(report.first_finding()->diagnosis, kNoCommand);
  EXPECT_NE(report.first_finding()->text.find("a.sh has no srun line"), std::string::npos);
}

TEST_F(LayoutsLab, TheObviousCommandsThatDoSomethingElse) {
  folder_.write("a.sh", "srun -n 3 hostname\n");  // all on one node
  std::string text;
  EXPECT_EQ(found(&text), kWrongLayout);
  EXPECT_NE(text.find("3 tasks: 3 on arnold"), std::string::npos) << text;
  folder_.write("a.sh", "srun -N 3 --ntasks-per-node=1 hostname\n");
  folder_.write("c.sh", "srun -w arnold,bruce -n 6 hostname\n");  // four and two
  EXPECT_EQ(found(&text), kWrongLayout);
  EXPECT_NE(text.find("4 on arnold, 2 on bruce"), std::string::npos) << text;
}

TEST_F(LayoutsLab, AStepThatInheritsSixTasksIsRefused) {
  folder_.write("d.sbatch", "#SBATCH -N 3\n#SBATCH -n 6\nsrun -N 2 --ntasks-per-node=2 hostname\nsrun hostname\n");
  std::string text;
  EXPECT_EQ(found(&text), kRefusedBySlurm);
  EXPECT_NE(text.find("as its job"), std::string::npos) << text;
  folder_.write("d.sbatch", "#SBATCH -N 3\n#SBATCH -n 6\nsrun -N 2 -n 4 hostname\nsrun hostname\n");  // three and one
  EXPECT_EQ(found(&text), kWrongLayout);
  EXPECT_NE(text.find("3 on arnold, 1 on bruce"), std::string::npos) << text;
}

TEST_F(LayoutsLab, WhatCannotBeReadIsNamedWithFileAndLine) {
  folder_.write("c.sh", "#!/bin/sh\nsrun -w arnold,bruce -n 6 hostname | sort\n");
  std::string text;
  EXPECT_EQ(found(&text), kUnreadable);
  EXPECT_NE(text.find("c.sh, line 2"), std::string::npos) << text;
  folder_.write("cluster.txt", "nodes: n1\ncores: 4\n");
  EXPECT_EQ(found(&text), kUnreadable);
  EXPECT_NE(text.find("three nodes or more"), std::string::npos) << text;
}

TEST_F(LayoutsLab, AWrongAnswerIsNotGivenAway) {
  folder_.write("answers.txt", "1: 3\n2: arnold\n3: 6\n4: 3\n5: 1\n");
  std::string text;
  EXPECT_EQ(found(&text), kWrongAnswer);
  EXPECT_EQ(text, "the answer to question 1 is not '3'");
}

}  // namespace
}  // namespace tutti::labs::layouts
