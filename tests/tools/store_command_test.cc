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
  explicit RunningStore(const Words& options, const Words& environment = {})
      : process_(joined({TUTTI_PROGRAM, "store"}, options), environment) {
    EXPECT_TRUE(process_.prints("\n")) << process_.err();
  }
  std::string said() const { return process_.out(); }
  /// The value of "NAME=value" in what it said.
  std::string value_of(const std::string& name) const {
    const std::string text = said();
    const std::size_t begin = text.find(name + "=") + name.size() + 1;
    return text.substr(begin, text.find_first_of(" \n", begin) - begin);
  }
  void expect_end_by(int signal, const std::string& name) {
    process_.kill(signal);
    process_.expect_end(0);
    EXPECT_TRUE(said().ends_with("ended by " + name + "\n")) << said();
  }

 private:
  Running process_;
};

TEST(StoreCommand, RanksStartedByHandMeetThere) {
  const std::string secret = "TUTTI_JOB_SECRET=by hand";
  RunningStore store({"--job-id", "mine", "--world-size", "2"}, {secret});
  expect_parts(store.said(), {" TORCHELASTIC_USE_AGENT_STORE=True TUTTI_JOB_ID='mine'"});
  EXPECT_FALSE(contains(store.said(), "by hand")) << "the secret itself is not shown";
  const auto environment = [&](const std::string& rank) {
    return Words{secret,
                 "RANK=" + rank,
                 "WORLD_SIZE=2",
                 "TUTTI_JOB_ID=mine",
                 "TUTTI_STORE=" + store.value_of("TUTTI_STORE"),
                 "TORCHELASTIC_USE_AGENT_STORE=True"};
  };
  Running first({TUTTI_PROGRAM, "bench", "barrier"}, environment("0"));
  Running second({TUTTI_PROGRAM, "bench", "barrier"}, environment("1"));
  first.expect_end(0);
  second.expect_end(0);
  store.expect_end_by(SIGTERM, "SIGTERM");
}

TEST(StoreCommand, TheOneForPyTorchSaysThatItIsOpen) {
  RunningStore store({"--torch"});
  EXPECT_TRUE(store.said().starts_with("store for PyTorch: MASTER_ADDR=127.0.0.1 MASTER_PORT=")) << store.said();
  expect_parts(store.said(), {"It knows no secret"});
  expect_failure(tutti({"store", "--torch", "--port", store.value_of("MASTER_PORT")}), 1,
                 {"tutti store: cannot listen on 127.0.0.1:" + store.value_of("MASTER_PORT")});
  store.expect_end_by(SIGINT, "SIGINT");
}

TEST(LaunchersStores, OneForPyTorchAndOneForTutti) {
  const std::string show =
      "echo ${TORCHELASTIC_USE_AGENT_STORE-none} ${TUTTI_STORE-none}; test \"$MASTER_PORT\" "
      "-gt 1023 -a \"${TUTTI_STORE##*:}\" != $MASTER_PORT";
  const auto shown = [&](const Words& options, const Words& outer = {}) {
    const Finished run = tutti_run(options, show, outer);
    EXPECT_EQ(run.status, exited(0)) << run.err;
    return std::regex_replace(run.out, std::regex(":[0-9]+\n"), ":PORT\n");
  };
  const Words of_outer{"TORCHELASTIC_USE_AGENT_STORE=True", "TUTTI_STORE=tcp://outer:1"};
  EXPECT_EQ(shown({}), "True tcp://127.0.0.1:PORT\n");
  EXPECT_EQ(shown({}, of_outer), "True tcp://127.0.0.1:PORT\n");
  EXPECT_EQ(shown({"--no-store"}, of_outer), "none none\n") << "a launcher around this one";
  EXPECT_EQ(shown({}, {"TUTTI_STORE=file:///f"}), "True file:///f\n") << "the user's own";
}

}  // namespace
}  // namespace tutti::test
