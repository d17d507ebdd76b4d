// `tutti store`, and the variables of stores that `tutti run` gives. PyTorch's own client: torch_store_client.py.

#include <gtest/gtest.h>
#include <signal.h>

#include <regex>

#include "tutti_program.h"

namespace tutti::test {
namespace {

/// `tutti store OPTIONS`, once it serves.
class RunningStore {
 public:
  explicit RunningStore(const std::vector<std::string>& options, const std::vector<std::string>& environment = {})
      : process_(plan(options, environment)) {
    EXPECT_TRUE(process_.wait_for_output(0, "\n")) << process_.err(0);
  }
  std::string said() const { return process_.out(0); }
  /// The value of "NAME=value" in what it said.
  std::string value_of(const std::string& name) const {
    const std::string text = said();
    const std::size_t begin = text.find(name + "=") + name.size() + 1;
    return text.substr(begin, text.find_first_of(" \n", begin) - begin);
  }
  void expect_end_by(int signal, const std::string& name) {
    process_.kill(0, signal);
    EXPECT_EQ(process_.wait(0), exited(0)) << process_.err(0);
    EXPECT_TRUE(said().ends_with("ended by " + name + "\n")) << said();
  }

 private:
  static ProcessesOptions plan(const std::vector<std::string>& options, const std::vector<std::string>& environment) {
    ProcessesOptions result{
        .command = {TUTTI_PROGRAM, "store"}, .count = 1, .ranks = false, .environment = environment};
    result.command.insert(result.command.end(), options.begin(), options.end());
    return result;
  }
  Processes process_;
};

TEST(StoreCommand, RanksStartedByHandMeetThere) {
  const std::string secret = "TUTTI_JOB_SECRET=by hand";
  RunningStore store({"--job-id", "mine", "--world-size", "2"}, {secret});
  EXPECT_TRUE(contains(store.said(), " TORCHELASTIC_USE_AGENT_STORE=True TUTTI_JOB_ID='mine'")) << store.said();
  EXPECT_FALSE(contains(store.said(), "by hand")) << "the secret itself is not shown";
  const auto rank = [&](const std::string& number) {
    return ProcessesOptions{
        .command = {TUTTI_PROGRAM, "bench", "barrier"},
        .count = 1,
        .ranks = false,
        .environment = {secret, "RANK=" + number, "WORLD_SIZE=2", "TUTTI_JOB_ID=mine",
                        "TUTTI_STORE=" + store.value_of("TUTTI_STORE"), "TORCHELASTIC_USE_AGENT_STORE=True"}};
  };
  Processes first(rank("0")), second(rank("1"));
  EXPECT_EQ(first.wait(0), exited(0)) << first.err(0);
  EXPECT_EQ(second.wait(0), exited(0)) << second.err(0);
  store.expect_end_by(SIGTERM, "SIGTERM");
}

TEST(StoreCommand, TheOneForPyTorchSaysThatItIsOpen) {
  RunningStore store({"--torch"});
  EXPECT_TRUE(store.said().starts_with("store for PyTorch: MASTER_ADDR=127.0.0.1 MASTER_PORT=")) << store.said();
  EXPECT_TRUE(contains(store.said(), "It knows no secret")) << store.said();
  const Finished second = run_program({TUTTI_PROGRAM, "store", "--torch", "--port", store.value_of("MASTER_PORT")});
  EXPECT_EQ(second.status, exited(1));
  EXPECT_TRUE(contains(second.err, "tutti store: cannot listen on 127.0.0.1:" + store.value_of("MASTER_PORT")))
      << second.err;
  store.expect_end_by(SIGINT, "SIGINT");
}

TEST(LaunchersStores, OneForPyTorchAndOneForTutti) {
  const std::string show =
      "echo ${TORCHELASTIC_USE_AGENT_STORE-none} ${TUTTI_STORE-none}; test \"$MASTER_PORT\" "
      "-gt 1023 -a \"${TUTTI_STORE##*:}\" != $MASTER_PORT";
  const auto shown = [&](std::vector<std::string> options, const std::vector<std::string>& outer = {}) {
    const Finished run = run_program(run_command(std::move(options), show), outer);
    EXPECT_EQ(run.status, exited(0)) << run.err;
    return std::regex_replace(run.out, std::regex(":[0-9]+\n"), ":PORT\n");
  };
  const std::vector<std::string> of_outer{"TORCHELASTIC_USE_AGENT_STORE=True", "TUTTI_STORE=tcp://outer:1"};
  EXPECT_EQ(shown({}), "True tcp://127.0.0.1:PORT\n");
  EXPECT_EQ(shown({}, of_outer), "True tcp://127.0.0.1:PORT\n");
  EXPECT_EQ(shown({"--no-store"}, of_outer), "none none\n") << "a launcher around this one";
  EXPECT_EQ(shown({}, {"TUTTI_STORE=file:///f"}), "True file:///f\n") << "the user's own";
}

}  // namespace
}  // namespace tutti::test
