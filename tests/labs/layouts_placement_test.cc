// The model of Slurm's placement against what a real Slurm 22.05 did with the same lines on four nodes of four cores
// (recorded; tests/labs/slurm_layouts asks a Slurm again).

#include <gtest/gtest.h>
#include <tutti/tests/labs/slurm_lines.h>
#include <tutti/tools/labs/layouts/placement.h>

#include <string>
#include <vector>

namespace tutti::labs::layouts {
namespace {

const Cluster kCluster{.nodes = {"n1", "n2", "n3", "n4"}, .cores = 4};

std::string compact(const Layout& layout) {
  std::string text;
  for (const Task& task : layout) text += (text.empty() ? "" : " ") + task.node + ":" + std::to_string(task.local);
  return text;
}

std::string placed(const std::string& job, const std::string& step) {
  try {
    const Options options = read_srun("srun " + step + " hostname").options;
    if (job.empty()) return compact(place_alone(kCluster, options).layout);
    return compact(place_step(allocate(kCluster, read_srun("srun " + job + " hostname").options), options).layout);
  } catch (const PlacementError&) {
    return "error";
  }
}

TEST(LayoutsPlacement, TasksLieWhereSlurmPutThem) {
  for (const SlurmLine& line : kSlurmLines) {
    EXPECT_EQ(placed(line.job, line.step), line.layout) << "salloc " << line.job << " srun " << line.step;
  }
}

TEST(LayoutsPlacement, WarningsAndErrorsSayWhy) {
  const Placed fewer = place_alone(kCluster, read_srun("srun -N 3 -n 2 hostname").options);
  ASSERT_EQ(fewer.warnings.size(), 1u);
  EXPECT_NE(fewer.warnings[0].find("can't run 2 tasks on 3 nodes"), std::string::npos);
  const Job job = allocate(kCluster, read_srun("srun -N3 -n6 hostname").options);
  try {
    place_step(job, read_srun("srun -N2 --ntasks-per-node=2 hostname").options);
    FAIL() << "six tasks do not fit";
  } catch (const PlacementError& error) {
    EXPECT_NE(std::string(error.what()).find("asks for 6 tasks (as its job, since it has no --ntasks)"),
              std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("--ntasks-per-node=2 is ignored"), std::string::npos) << error.what();
  }
}

std::string refusal(const std::string& line) {
  try {
    read_srun(line);
    return "";
  } catch (const LineError& error) {
    return error.what();
  }
}

TEST(LayoutsCommandLine, OptionsMayBeSpeltInEveryWayOfSlurm) {
  for (const char* line : {"srun -N3 -n9 hostname", "srun -N 3 -n 9 /bin/hostname",
                           "srun --nodes=3 --ntasks 9 hostname", "srun -Q -l -N3 --ntasks=9 'hostname' # a comment"}) {
    const CommandLine command = read_srun(line);
    EXPECT_EQ(command.options.nodes, 3) << line;
    EXPECT_EQ(command.options.tasks, 9) << line;
    EXPECT_EQ(command.command.size(), 1u) << line;
  }
  const CommandLine names = read_srun("srun -w arnold,bruce --time=5 -p common -m plane=2 hostname -s");
  EXPECT_EQ(names.options.nodelist, (std::vector<std::string>{"arnold", "bruce"}));
  EXPECT_EQ(names.options.plane, 2);
  EXPECT_EQ(names.command, (std::vector<std::string>{"hostname", "-s"}));
}

TEST(LayoutsCommandLine, WhatIsNotUnderstoodIsRefusedWithASentence) {
  EXPECT_NE(refusal("srun -N $N hostname").find("variables"), std::string::npos);
  EXPECT_NE(refusal("srun -N 3 hostname | sort").find("'|'"), std::string::npos);
  EXPECT_NE(refusal("srun -N 2-3 hostname").find("not '2-3'"), std::string::npos);
  EXPECT_NE(refusal("srun --gpus=1 hostname").find("--gpus=1"), std::string::npos);
  EXPECT_NE(refusal("srun -N 3").find("no program"), std::string::npos);
  EXPECT_NE(refusal("mpirun hostname").find("begin with srun"), std::string::npos);
  EXPECT_NE(refusal("srun -w 'n1 hostname").find("never closed"), std::string::npos);
  EXPECT_NE(refusal("srun -N 0 hostname").find("from 1"), std::string::npos);
}

}  // namespace
}  // namespace tutti::labs::layouts
