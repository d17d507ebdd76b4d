#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/transport/shm/join.h>

#include <map>
#include <utility>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using test::expect_error;
using test::expect_parts;
using test::place_of;
using test::text_of;
using test::Variables;

Environment of(Variables variables) { return test::environment_of(std::move(variables)); }

Variables torchrun() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "10.0.0.1"},
          {"MASTER_PORT", "29500"},
          {"TUTTI_JOB_SECRET", "hush"}};
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

/// The text of the error that detect() must throw; it must never show the secret.
std::string refusal(const Variables& variables, const WorldOptions& options = {}) {
  const std::string text = text_of(ErrorCode::InvalidArgument, [&] { World::detect(options, of(variables)); });
  test::expect_absent(text, {"hush"});
  return text;
}

TEST(World, NothingSetIsAWorldOfOneWithoutASecret) {
  const World world = World::detect({}, of({}));
  EXPECT_EQ(place_of(world), "rank 0 of 1, local rank 0 of 1");
  EXPECT_EQ(world.master_addr, "");
  EXPECT_EQ(world.job_id, "default");
  EXPECT_EQ(world.job_secret, "");
  EXPECT_FALSE(world.launcher_owns_store);
  EXPECT_EQ(world.detected_from, "nothing: one rank");
}

TEST(World, TorchrunsVariables) {
  Variables variables = with(torchrun(), "TUTTI_JOB_ID", "run 7");
  const World world = World::detect({}, of(variables));
  EXPECT_EQ(place_of(world), "rank 3 of 4, local rank 1 of 2");
  EXPECT_EQ(world.master_addr, "10.0.0.1");
  EXPECT_EQ(world.master_port, 29500);
  EXPECT_EQ(world.job_id, "run 7");
  EXPECT_EQ(world.job_secret, "hush");
  EXPECT_FALSE(world.launcher_owns_store);
  EXPECT_EQ(world.detected_from,
            "RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT in the environment");
}

TEST(World, OptionsAloneAreEnough) {
  WorldOptions options{.rank = 1, .world_size = 2, .master_addr = "localhost", .master_port = 4000};
  const World world = World::detect(options, of({{"TUTTI_JOB_SECRET", "hush"}}));
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.world_size, 2);
  EXPECT_EQ(world.master_port, 4000);
  EXPECT_EQ(world.detected_from, "explicit options");
}

TEST(World, OptionsFillWhatTheEnvironmentLacks) {
  const World world = World::detect({.master_port = 4001}, of(without(torchrun(), "MASTER_PORT")));
  EXPECT_EQ(world.rank, 3);
  EXPECT_EQ(world.master_port, 4001);
  test::expect_parts(world.detected_from, {"explicit options, and RANK, WORLD_SIZE"});
}

TEST(World, OptionAgainstEnvironmentShowsBoth) {
  const std::string text = refusal(torchrun(), {.rank = 2});
  test::expect_parts(text, {"option for RANK is \"2\"", "RANK=\"3\""});
  EXPECT_EQ(World::detect({.rank = 3}, of(torchrun())).rank, 3);
  test::expect_parts(refusal(torchrun(), {.master_addr = "elsewhere"}), {"\"elsewhere\""});
}

TEST(World, HalfSetEnvironmentListsFoundAndMissing) {
  const std::string no_size = refusal(without(torchrun(), "WORLD_SIZE"));
  test::expect_parts(no_size,
                     {"missing: WORLD_SIZE", "RANK=\"3\"", "MASTER_ADDR=\"10.0.0.1\"", "TUTTI_JOB_SECRET=(set)"});

  test::expect_parts(refusal({{"MASTER_PORT", "29500"}}), {"missing: RANK, WORLD_SIZE"});
  test::expect_parts(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TUTTI_JOB_SECRET", "hush"}}),
                     {"missing: MASTER_ADDR, MASTER_PORT"});
  test::expect_parts(refusal({}, {.rank = 0}), {"option RANK=\"0\""});
}

TEST(World, RanksMayMeetInAFile) {
  const Variables variables = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TUTTI_JOB_SECRET", "hush"}, {"TUTTI_STORE", "file:///shared/run 7"}};
  const World world = World::detect({}, of(variables));
  EXPECT_EQ(world.store_file, "/shared/run 7");
  EXPECT_EQ(world.master_addr, "");
  EXPECT_EQ(World::detect({}, of(with(torchrun(), "TUTTI_STORE", "file:///f"))).store_file, "/f");
  EXPECT_EQ(World::detect({.store = "file:///f"}, of(torchrun())).store_file, "/f");
  EXPECT_EQ(World::detect({}, of(torchrun())).store_file, "");
  test::expect_parts(refusal(variables, {.store = "file:///other"}), {"TUTTI_STORE=\"file:///shared/run 7\""});
  for (const char* place : {"file://", "file:///", "file://relative", "/shared/run", "tcp://host", "tcp://:1",
                            "tcp://host:0", "tcp://host:65536", "tcp://host:1x"}) {
    const std::string text = refusal(with(variables, "TUTTI_STORE", place));
    test::expect_parts(text, {"TUTTI_STORE=\"" + std::string(place) + "\" names no place", "write file:///PATH"});
  }
  test::expect_parts(refusal({}, {.store = "file:///f"}), {"missing: RANK, WORLD_SIZE"});
}

TEST(World, AServerOfTheirOwnWinsOverMasterAddr) {
  for (const auto& [store, host] :
       {std::pair("tcp://10.0.0.9:4001", "10.0.0.9"), std::pair("tcp://[::1]:4001", "::1")}) {
    const World world = World::detect({}, of(with(torchrun(), "TUTTI_STORE", store)));
    EXPECT_EQ(world.master_addr, host);
    EXPECT_EQ(world.master_port, 4001);
    EXPECT_EQ(world.store_file, "");
    EXPECT_FALSE(world.launcher_owns_store);
  }
}

TEST(World, TheLauncherServesWhereItSaysSo) {
  const Variables served = with(torchrun(), "TORCHELASTIC_USE_AGENT_STORE", "True");
  const World own = World::detect({}, of(with(served, "TUTTI_STORE", "tcp://10.0.0.9:4001")));
  EXPECT_TRUE(own.launcher_owns_store);
  EXPECT_EQ(own.meeting_file, "");
  EXPECT_FALSE(World::detect({.store = "tcp://10.0.0.9:4001"}, of(served)).launcher_owns_store) << "the program's own";
  EXPECT_FALSE(World::detect({}, of(with(torchrun(), "TORCHELASTIC_USE_AGENT_STORE", "False"))).launcher_owns_store);
}

// Its agent serves PyTorch's store at MASTER_ADDR.
TEST(World, UnderTorchrunRanksMeetInAFileOfEachStart) {
  Variables variables = with(torchrun(), "TORCHELASTIC_USE_AGENT_STORE", "True");
  variables["TUTTI_MEET_DIR"] = "/m";
  variables["TORCHELASTIC_RUN_ID"] = "none";
  const auto file = [&](const std::string& name, const std::string& value) {
    const World world = World::detect({}, of(with(variables, name, value)));
    EXPECT_FALSE(world.launcher_owns_store);
    return world.meeting_file;
  };
  EXPECT_EQ(file("TORCHELASTIC_RESTART_COUNT", "0"), "/m/torchrun-10.0.0.1-29500--none-0.meet");
  EXPECT_EQ(file("TORCHELASTIC_RESTART_COUNT", "1"), "/m/torchrun-10.0.0.1-29500--none-1.meet");
  EXPECT_EQ(file("TUTTI_JOB_ID", "mine"), "/m/torchrun-10.0.0.1-29500-mine-none-.meet");
  EXPECT_NE(file("MASTER_ADDR", "127.0.0.1").find(host_identity().substr(0, 36)), std::string::npos)
      << "each host has this address";
}

TEST(World, WorldOfOneNeedsNoAddress) {
  const World world = World::detect({}, of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  EXPECT_EQ(world.world_size, 1);
  EXPECT_EQ(world.job_secret, "");
}

TEST(World, NumbersAreReadStrictly) {
  test::expect_parts(refusal(with(torchrun(), "WORLD_SIZE", "2x")), {"WORLD_SIZE=\"2x\" is no whole number"});
  test::expect_parts(refusal(with(torchrun(), "RANK", " 1")), {"RANK=\" 1\" is no whole number"});
  test::expect_parts(refusal(with(torchrun(), "RANK", "")), {"RANK=\"\" is no whole number"});
  test::expect_parts(refusal(with(torchrun(), "RANK", "99999999999999")),
                     {"RANK=\"99999999999999\" is no whole number"});
  test::expect_parts(refusal(with(torchrun(), "RANK", "-1")), {"RANK=\"-1\" is no whole number in 0.."});
  test::expect_parts(refusal(with(torchrun(), "WORLD_SIZE", "0")), {"WORLD_SIZE=\"0\" is no whole number in 1.."});
  test::expect_parts(refusal(with(torchrun(), "MASTER_PORT", "70000")),
                     {"MASTER_PORT=\"70000\" is no whole number in 1..65535"});
  test::expect_parts(refusal(with(torchrun(), "MASTER_PORT", "0")),
                     {"MASTER_PORT=\"0\" is no whole number in 1..65535"});
  test::expect_parts(refusal(without(torchrun(), "RANK"), {.rank = -4}),
                     {"the option for RANK=\"-4\" is no whole number in 0.."});
}

TEST(World, ContradictionsAreNamed) {
  const std::string text = refusal(with(torchrun(), "WORLD_SIZE", "2"));
  test::expect_parts(text, {"RANK 3 does not exist in a world of WORLD_SIZE 2"});
  test::expect_parts(refusal(with(torchrun(), "LOCAL_RANK", "2")), {"LOCAL_RANK 2 does not exist among 2 local ranks"});
  test::expect_parts(refusal(with(torchrun(), "LOCAL_WORLD_SIZE", "8")),
                     {"LOCAL_WORLD_SIZE 8 is more than WORLD_SIZE 4"});
  test::expect_parts(refusal(with(torchrun(), "MASTER_ADDR", "")), {"MASTER_ADDR is set but empty"});
  test::expect_parts(refusal(with(torchrun(), "TUTTI_JOB_SECRET", "")), {"TUTTI_JOB_SECRET is set but empty"});
}

TEST(World, TheMastersAddressIsReadAsPeopleWriteIt) {
  for (const auto& [written, read] :
       std::map<std::string, std::string>{{"[::1]", "::1"}, {"fd00::1", "fd00::1"}, {"::1", "::1"}, {"node1", "node1"}})
    EXPECT_EQ(World::detect({}, of(with(torchrun(), "MASTER_ADDR", written))).master_addr, read);
  for (const std::string host : {"node1", "10.0.0.1", "[::1]"})
    test::expect_parts(refusal(with(torchrun(), "MASTER_ADDR", host + ":29500")),
                       {"holds a port; set MASTER_ADDR=" + host + " and MASTER_PORT=29500"});
}

TEST(World, LocalPlaceFollowsFromALoopbackMaster) {
  Variables variables = without(without(torchrun(), "LOCAL_RANK"), "LOCAL_WORLD_SIZE");
  const World far = World::detect({}, of(variables));
  EXPECT_EQ(place_of(far), "rank 3 of 4, local rank 0 of 1");
  const World near = World::detect({}, of(with(variables, "MASTER_ADDR", "127.0.0.1")));
  EXPECT_EQ(place_of(near), "rank 3 of 4, local rank 3 of 4");
}

TEST(World, SeveralRanksNeedASecret) {
  const Variables variables = without(torchrun(), "TUTTI_JOB_SECRET");  // and no HOME to keep one in
  test::expect_parts(refusal(variables), {"TUTTI_JOB_SECRET is not set"});
}

TEST(World, ControlCharactersInAVariableAreNotPrintedRaw) {
  const std::string text = refusal(with(torchrun(), "RANK", "\x1b[31m1"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(Invitation, SaysAllThatARankMustKnowButItsPlace) {
  const std::string text = invite(3, /*one_host=*/true, of({}));
  const World world =
      World::detect({.rank = 2, .world_size = 3, .store = text, .launcher = "auto"}, of(with(torchrun(), "RANK", "7")));
  EXPECT_EQ(place_of(world), "rank 2 of 3, local rank 2 of 3");
  EXPECT_EQ(world.job_secret.size(), 64u);
  test::expect_parts(text, {world.job_secret});
  EXPECT_LT(text.size(), 1536u);
  test::expect_parts(refusal({}, {.rank = 3, .world_size = 3, .store = text}),
                     {"for 3 ranks, but this one says it is rank 3 of 3"});
  test::expect_parts(refusal({}, {.rank = 0, .world_size = 2, .store = text}), {"it is rank 0 of 2"});
  test::expect_parts(refusal({}, {.store = text}), {"rank -1 of -1 (-1: not set)"});
  test::expect_parts(refusal({}, {.rank = 0, .world_size = 3, .store = text.substr(0, text.size() - 1)}),
                     {"is not what"});
  test::expect_parts(refusal({}, {.rank = 0, .world_size = 3, .store = "tutti-invitation:x"}), {"is not what"});
  EXPECT_THROW(invite(0, true, of({})), Error);
}

TEST(Invitation, HoldsNoSecretThatTheJobHasAlready) {
  const std::string text = invite(2, true, of({{"TUTTI_JOB_SECRET", "hush"}}));
  test::expect_absent(text, {"hush"});
  const WorldOptions options{.rank = 1, .world_size = 2, .store = text};
  EXPECT_EQ(World::detect(options, of({{"TUTTI_JOB_SECRET", "hush"}})).job_secret, "hush");
  for (const Variables& other : {Variables{}, Variables{{"TUTTI_JOB_SECRET", "another"}}})
    test::expect_error(ErrorCode::Unauthorized, {"was made with TUTTI_JOB_SECRET"},
                       [&] { World::detect(options, of(other)); });
}

}  // namespace
}  // namespace tutti::comm
