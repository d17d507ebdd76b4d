// The command line of `tutti run` and `tutti`.

#include <gtest/gtest.h>

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
      {{"run", "--label", "${x} ", "true"},
       "tutti run: the label has ${x}, but knows ${rank}, ${local_rank}, ${node}, ${host} and ${role_name} only"},
      {{"run", "-H", "a,b", "--stdin", "0", "true"},
       "tutti run: --stdin reaches ranks of this host's own launcher; with -H or --hostfile all read /dev/null"},
      {{"run", "--hostfile", "/", "true"}, "tutti run: --hostfile / cannot be read"},
      {{"run", "--bind", "--no-bind", "true"}, "tutti run: --bind excludes --no-bind"},
      {{"run", "-m", "--no-python", "x"}, "tutti run: --module and --no-python exclude each other"},
  };
  for (const auto& [words, sentence] : cases) expect_wrong_usage(tutti(words), sentence);
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
