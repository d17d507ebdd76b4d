// torchrun's options and variables, and where each setting of `tutti run` comes from.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tutti_program.h"

namespace tutti::test {
namespace {

Finished run_here(const Words& words, const Words& environment = {}) {
  return tutti(joined({"run"}, words), environment);
}

TEST(RunOptions, TorchrunsVariablesStandForOptions) {
  const Finished run = tutti_run({"--no-label"}, "echo $WORLD_SIZE $TORCHELASTIC_MAX_RESTARTS",
                                 {"PET_NPROC_PER_NODE=2", "PET_MAX_RESTARTS=3", "PET_STANDALONE=1", "PET_NO_STORE=0"});
  EXPECT_EQ(run.out, "2 3\n2 3\n") << run.err;
}

TEST(RunOptions, TheCommandLineWinsOverAVariableAndSaysSo) {
  const Finished run = tutti_run({"--max-restarts", "1"}, "echo $TORCHELASTIC_MAX_RESTARTS",
                                 {"PET_MAX_RESTARTS=3", "PET_NPROC_PER_NODE=1"});
  EXPECT_EQ(run.out, "1\n");
  EXPECT_EQ(run.err,
            "tutti run: --max-restarts 1 of the command line wins over PET_MAX_RESTARTS=3 in the environment\n");
  const Finished agreed = tutti_run({"--max-restarts", "3"}, ":", {"PET_MAX_RESTARTS=3"});
  EXPECT_EQ(agreed.err, "");
}

TEST(RunOptions, AVariableThatMakesNoSenseIsNamed) {
  const Finished run = run_here({"true"}, {"PET_MAX_RESTARTS=many"});
  EXPECT_EQ(run.status, exited(2));
  EXPECT_EQ(run.err.find("tutti run: PET_MAX_RESTARTS='many' in the environment: "), 0u) << run.err;
}

TEST(RunOptions, VerboseTellsEverySettingAndItsSource) {
  const Finished run = run_here({"-n", "1", "--verbose", "true"}, {"PET_ROLE=worker"});
  expect_parts(run.err, {"tutti run: --nproc-per-node 1 (command line)\n", "tutti run: --role worker (PET_ROLE)\n",
                         "tutti run: by default: --nnodes 1, "});
}

TEST(RunOptions, AnExportedMasterPortThatIsNotUsedIsNamed) {
  const std::vector<std::string> exported{"MASTER_PORT=1"};
  const Finished run = tutti_run({"-n", "1"}, "test $MASTER_PORT != 1", exported);
  EXPECT_EQ(run.status, exited(0));
  expect_parts(run.err, {"MASTER_PORT=1 of the environment is not used; write --master-port 1"});
  EXPECT_EQ(tutti_run({"-n", "1"}, ":", {"MASTER_PORT=1", "RANK=0"}).err, "");  // another launcher's
}

TEST(RunOptions, UnderscoresAreTorchrunsSpellingButNotThePrograms) {
  const Finished run = run_here({"--nproc_per_node=1", "--max_restarts", "2", "echo", "--my_option"});
  EXPECT_EQ(run.out, "--my_option\n") << run.err;
}

TEST(RunOptions, RolesAreGiven) {
  EXPECT_EQ(
      tutti_run({"-n", "2", "--role", "trainer", "--ranks-filter", "1"}, "echo $ROLE_NAME $ROLE_RANK $ROLE_WORLD_SIZE")
          .out,
      "[rank 1] trainer 1 2\n");
}

TEST(RunOptions, PythonModulesAndScriptsRunInPython) {
  EXPECT_EQ(run_here({"-m", "platform", "--version"}).status.by_signal, false);
  const std::string script = testing::TempDir() + "/tutti_script_" + std::to_string(::getpid()) + ".py";
  std::ofstream(script) << "import sys; print('python', sys.argv[1:])\n";
  EXPECT_EQ(run_here({script, "a"}).out, "python ['a']\n");
  EXPECT_EQ(run_here({"--no-python", script}).status, exited(126));
  const std::string other = script + "txt";
  std::filesystem::rename(script, other);
  EXPECT_EQ(run_here({"--run-path", other}).out, "python []\n");
  std::filesystem::remove(other);
}

TEST(RunOptions, OptionsWithoutMeaningHereAreAcceptedAndNamed) {
  const Finished run = run_here({"--monitor-interval", "0.5", "--start-method", "spawn", "--verbose", "true"});
  EXPECT_EQ(run.status, exited(0));
  expect_parts(run.err, {"tutti run: ignored: --monitor-interval, --start-method\n"});
}

TEST(RunOptions, GpusAreCountedAsCudaDoes) {
  EXPECT_EQ(tutti_run({"-n", "gpu", "--ranks-filter", "0"}, "echo $WORLD_SIZE", {"CUDA_VISIBLE_DEVICES=3,5"}).out,
            "[rank 0] 2\n");
  const Finished none = tutti_run({"-n", "gpu"}, ":", {"CUDA_VISIBLE_DEVICES="});
  EXPECT_EQ(none.status, exited(2));
  EXPECT_EQ(first_line(none.err), "tutti run: --nproc-per-node is gpu, but this host shows no GPU");
}

}  // namespace
}  // namespace tutti::test
