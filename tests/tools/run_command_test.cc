// The command line of `tutti run` and `tutti`.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tutti_program.h"

namespace tutti::test {
namespace {

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
      {{"tran", "mnist"}, "tutti: unknown command tran; did you mean train?"},
      {{"train", "mnits"}, "tutti train: unknown command mnits; did you mean mnist?"},
      {{"lab", "quux"}, "tutti lab: unknown command quux"},
      {{"train", "mnist", "--modle", "mlp"}, "tutti train mnist: unknown option --modle; did you mean --model?"},
      {{"plan", "--wrold=4"}, "tutti plan: unknown option --wrold; did you mean --world?"},
      {{"doctor", "now"}, "tutti doctor: 'now' is one word too many"},
      {{"run", "--bogus", "3", "--", "true"}, "tutti run: unknown option --bogus"},
      {{"run", "--nproc-per-nod", "3", "--", "true"},
       "tutti run: unknown option --nproc-per-nod; did you mean --nproc-per-node?"},
      {{"run", "-n", "0", "true"},
       "tutti run: --nproc-per-node is '0', but must be a number from 1 up, or auto, cpu or gpu"},
      {{"run", "-n", "x", "true"},
       "tutti run: --nproc-per-node is 'x', but must be a number from 1 up, or auto, cpu or gpu"},
      {{"run", "-np", "2", "true"},
       "tutti run: --nproc-per-node is 'p', but must be a number from 1 up, or auto, cpu or gpu; mpirun's -np is -n "
       "here"},
      {{"run", "--nnodes", "2", "true"},
       "tutti run: --nnodes 2 needs --node-rank, 0 on the node of --master-addr (or --rdzv-endpoint HOST:PORT)"},
      {{"run", "--nnodes", "2", "--node-rank", "2", "--master-addr", "127.0.0.1", "true"},
       "tutti run: --node-rank is 2, but with --nnodes 2 it must be 0 to 1"},
      {{"run", "--nnodes", "2", "--node-rank", "1", "true"},
       "tutti run: --nnodes 2 needs --master-addr, an address of node 0 that all nodes can reach"},
      {{"run", "--nnodes", "1:2", "true"},
       "tutti run: --nnodes 1:2 needs --rdzv-endpoint HOST:PORT, where the nodes that are there meet"},
      {{"run", "--nnodes", "3:2", "true"},
       "tutti run: --nnodes is '3:2', but must be a number of nodes, or MIN:MAX with 1 <= MIN <= MAX"},
      {{"run", "--nnodes", "2", "--rdzv-endpoint", "a:0", "true"},
       "tutti run: --rdzv-endpoint 'a:0' has port 0: agents on several nodes cannot guess which port the first one "
       "got"},
      {{"run", "--nnodes", "2", "--rdzv-backend", "etcd", "true"},
       "tutti run: --rdzv-backend is 'etcd', but must be c10d or static: agents meet at a store of their own"},
      {{"run", "--rdzv-conf", "a=1", "true"},
       "tutti run: --rdzv-conf has 'a=1', but takes join_timeout, last_call_timeout, keep_alive_interval and "
       "silence_timeout, each =SECONDS"},
      {{"run", "--tee", "4", "true"},
       "tutti run: --tee is '4', but must be 0 (none), 1 (standard output), 2 (standard error) or 3 (both)"},
      {{"run", "--ranks-filter", "1-", "true"}, "tutti run: --ranks-filter is '1-', but must name ranks, as 0,2-5"},
      {{"run", "--stdin", "2", "-n", "2", "true"}, "tutti run: --stdin is 2, but the last rank is 1"},
      {{"run", "--label", "node", "true"}, "tutti run: --label: node not in {rank,host}"},
      {{"run", "-H", "a,b", "--stdin", "0", "true"},
       "tutti run: --stdin reaches ranks of this host's own launcher; with -H or --hostfile all read /dev/null"},
      {{"run", "-H", "a", "--nnodes", "2", "true"},
       "tutti run: -H and --hostfile say which nodes there are; leave out --nnodes, --node-rank and --rdzv-endpoint"},
      {{"run", "-H", "a", "--max-restarts", "-1", "true"}, "tutti run: --max-restarts is negative"},
      {{"run", "--hostfile", "/", "true"}, "tutti run: --hostfile / cannot be read"},
      {{"run", "--master-port", "70000", "true"}, "tutti run: --master-port: Value 70000 not in range 0 to 65535"},
      {{"run", "--bind", "--no-bind", "true"}, "tutti run: --bind excludes --no-bind"},
      {{"run", "-m", "--no-python", "x"}, "tutti run: --module and --no-python exclude each other"},
  };
  for (const auto& [words, sentence] : cases) expect_wrong_usage(tutti(words), sentence);
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

// torchrun's options and variables, and where each setting of `tutti run` comes from.

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

// `tutti run --chaos` and TUTTI_CHAOS: for any program on comm, counted in collectives.

Finished bench_under(const Words& options, const Words& environment = {}) {
  const Words bench{"--", TUTTI_PROGRAM, "bench", "all_reduce", "--min-bytes", "64", "--max-bytes", "64"};
  return tutti(joined(joined({"run", "-n", "2"}, options), bench), environment);
}

TEST(ChaosOfComm, ARankDiesAtACollectiveAndIsNamed) {
  const Finished run = bench_under({"--chaos", "kill:rank=1,step=5"});
  expect_failure(run, 128 + SIGKILL,
                 {"chaos: rank 1 kills itself at step 5", "tutti run: rank 1 (pid ", "was killed by SIGKILL"});
}

TEST(ChaosOfComm, TheEnvironmentIsEnoughAndARestartIsSpared) {
  const Finished run =
      bench_under({"--max-restarts", "1"}, {"TUTTI_CHAOS=kill:rank=0,step=3;delay:rank=1,ms=1,step=2"});
  expect_success(run);
  expect_parts(run.err, {"chaos: rank 0 kills itself at step 3", "chaos: rank 1 waits at step 2"});
}

TEST(ChaosOfComm, WhatIsNotUnderstoodIsRefusedBeforeARankStarts) {
  const Finished run = bench_under({"--chaos", "melt:rank=1"});
  EXPECT_EQ(run.status, exited(2));
  EXPECT_TRUE(run.err.starts_with("tutti run: --chaos: chaos \"melt:rank=1\"")) << run.err;
  const Finished wrong = bench_under({}, {"TUTTI_CHAOS=melt:rank=1"});
  EXPECT_NE(wrong.status, exited(0));
  expect_parts(wrong.err, {"chaos \"melt:rank=1\""});
}

}  // namespace
}  // namespace tutti::test
