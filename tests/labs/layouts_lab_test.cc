// The lab `layouts` as students hand it in: right folders, and each kind of mistake.

#include <gtest/gtest.h>
#include <tutti/tests/labs/lab_folder.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tools/labs/catalogue.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/layouts/commands.h>

#include <string>

namespace tutti::labs::layouts {
namespace {

using namespace diagnosis;

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

  Report checked() const { return labs::check(find_lab("layouts"), folder_.path()); }

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
  test::expect_parts(text, {"rank 3 of b on arnold"});
  EXPECT_EQ(checked().points(), 92);
}

TEST_F(LayoutsLab, TheUntouchedFolderIsToldWhereToBegin) {
  LabFolder untouched("layouts");
  const Report report = labs::check(find_lab("layouts"), untouched.path());
  EXPECT_EQ(report.points(), 0);
  ASSERT_NE(report.first_finding(), nullptr);
  EXPECT_EQ(report.first_finding()->diagnosis, kNotStarted);
  test::expect_parts(report.first_finding()->text, {"a.sh has no srun line"});
}

TEST_F(LayoutsLab, TheObviousCommandsThatDoSomethingElse) {
  folder_.write("a.sh", "srun -n 3 hostname\n");  // all on one node
  std::string text;
  EXPECT_EQ(found(&text), kWrongLayout);
  test::expect_parts(text, {"3 tasks: 3 on arnold"});
  folder_.write("a.sh", "srun -N 3 --ntasks-per-node=1 hostname\n");
  folder_.write("c.sh", "srun -w arnold,bruce -n 6 hostname\n");  // four and two
  EXPECT_EQ(found(&text), kWrongLayout);
  test::expect_parts(text, {"4 on arnold, 2 on bruce"});
}

TEST_F(LayoutsLab, AStepThatInheritsSixTasksIsRefused) {
  folder_.write("d.sbatch", "#SBATCH -N 3\n#SBATCH -n 6\nsrun -N 2 --ntasks-per-node=2 hostname\nsrun hostname\n");
  std::string text;
  EXPECT_EQ(found(&text), kRefusedBySlurm);
  test::expect_parts(text, {"'srun -N 2 --ntasks-per-node=2 hostname': More processors requested than permitted"});
  folder_.write("d.sbatch", "#SBATCH -N 3\n#SBATCH -n 6\nsrun -N 2 -n 4 hostname\nsrun hostname\n");  // three and one
  EXPECT_EQ(found(&text), kWrongLayout);
  test::expect_parts(text, {"3 on arnold, 1 on bruce"});
}

TEST_F(LayoutsLab, WhatCannotBeReadIsNamedWithFileAndLine) {
  folder_.write("c.sh", "#!/bin/sh\nsrun -w arnold,bruce -n 6 hostname | sort\n");
  std::string text;
  EXPECT_EQ(found(&text), kNotUnderstood);
  test::expect_parts(text, {"c.sh, line 2"});
  folder_.write("c.sh", "srun -w arnold,bruce -n 7 hostname\n");
  EXPECT_EQ(found(&text), kNotUnderstood);
  test::expect_parts(text, {"what 'srun -w arnold,bruce -n 7 hostname' does is not in this lab's table"});
}

TEST_F(LayoutsLab, ATableThatCannotBeReadIsNamedWithItsLine) {
  folder_.append("table.txt", "b 9 arnold\n");
  std::string text;
  EXPECT_EQ(found(&text), kWrongTable);
  test::expect_parts(text, {"EXERCISE RANK NODE LOCAL_RANK"});
  folder_.write("table.txt", "a 0 arnold 0\na 0 bruce 0\n");
  EXPECT_EQ(found(&text), kWrongTable);
  EXPECT_EQ(text, "table.txt, line 2: rank 0 of a has a line already");
}

TEST_F(LayoutsLab, AWrongAnswerIsNotGivenAway) {
  folder_.write("answers.txt", "1: 3\n2: arnold\n3: 6\n4: 3\n5: 1\n");
  std::string text;
  EXPECT_EQ(found(&text), kWrongAnswer);
  EXPECT_EQ(text, "1: '3' is not right");
}

TEST(LayoutsCommands, OptionsMayBeSpeltInEveryWayOfSlurm) {
  for (const char* line :
       {"srun -N3 -n9 hostname", "srun -N 3 -n 9 /bin/hostname", "srun --nodes=3 --ntasks 9 hostname",
        "srun -Q -l -n 07 -N3 --ntasks=9 'hostname' # a comment", "srun -m block --ntasks=9 -N3 hostname"}) {
    EXPECT_EQ(read_srun(line).options, "--nodes=3 --ntasks=9") << line;
  }
  EXPECT_EQ(read_srun("srun -w bruce,arnold --time=5 -p common -m plane=2 --exclusive hostname -s").options,
            "--nodelist=arnold,bruce --distribution=plane=2 --exclusive");
}

std::string refusal(const std::string& line) {
  try {
    read_srun(line);
    return "";
  } catch (const LineError& error) {
    return error.what();
  }
}

TEST(LayoutsCommands, WhatIsNotUnderstoodIsRefusedWithASentence) {
  test::expect_parts(refusal("srun -N $N hostname"), {"variables"});
  test::expect_parts(refusal("srun -N 3 hostname | sort"), {"'|'"});
  test::expect_parts(refusal("srun -N 2-3 hostname"), {"not '2-3'"});
  test::expect_parts(refusal("srun --gpus=1 hostname"), {"--gpus=1"});
  test::expect_parts(refusal("srun -N 3"), {"no program"});
  test::expect_parts(refusal("mpirun hostname"), {"begin with srun"});
  test::expect_parts(refusal("srun -w 'n1 hostname"), {"never closed"});
  test::expect_parts(refusal("srun -N 0 hostname"), {"from 1"});
}

}  // namespace
}  // namespace tutti::labs::layouts
