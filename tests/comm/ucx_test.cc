// UCX as the engine of bulk channels: what it leaves alone, and how it is found. What it carries is in the suites of
// all transports: transport_test.cc, conformance_test.cc, fault_test.cc and others, as Net::Ucx and "ucx".
#include <gtest/gtest.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/transport/ucx/ucx_engine.h>
#include <tutti/tests/comm/store_test_support.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fault_job.h"

namespace tutti::comm {
namespace {

TEST(Ucx, LeavesSignalsVariablesAndMemoryFunctionsAlone) {
  if (!ucx_refusal().empty()) GTEST_SKIP() << ucx_refusal();
  const auto ended = tutti::test::run_program({TUTTI_FAULT_RANK, "0", "use-ucx"}, {"UCX_TLS=tcp,self"});
  EXPECT_EQ(ended.status.code, 0) << ended.out;
}

TEST(Ucx, ADeviceThatIsNotThereIsNamed) {
  if (!ucx_refusal().empty()) GTEST_SKIP() << ucx_refusal();
  const auto ended = tutti::test::run_program({TUTTI_FAULT_RANK, "0", "use-ucx"}, {"UCX_TLS=nosuch"});
  EXPECT_EQ(ended.status.code, 1) << ended.out;
  test::expect_parts(ended.out, {"UCX could not", "UCX_NET_DEVICES"});
}

TEST(Ucx, AHostWithACardIsNotConnectedToOneWithout) {
  if (!ucx_may_be_used()) GTEST_SKIP() << "no UCX";
  const auto engine = open_ucx("lo", {"127.0.0.1"});
  EXPECT_EQ(engine->address().rfind("n,127.0.0.1:", 0), 0u);
  EXPECT_EQ(engine->open("n,127.0.0.1:1", [] {})->failure(), "");
  const auto channel = engine->open("y,127.0.0.1:1", [] {});
  EXPECT_EQ(channel->send("some", 4), 0u);
  test::expect_parts(channel->failure(), {"only one has a card", "--iface"});
}

TEST(Ucx, IsRefusedWhereBytesAreToBeEncrypted) {
  World world;
  world.world_size = 2;
  test::expect_error(ErrorCode::InvalidArgument, {"UCX does not encrypt", "no --encrypt"},
                     [&] { ProcessGroup::connect(world, {.transport = "ucx", .encrypt = true}); });
}

TEST(Ucx, CardsAreThoseWithAPortThatIsUp) {
  namespace fs = std::filesystem;
  const fs::path sys = fs::path(testing::TempDir()) / ("cards" + std::to_string(::getpid()));
  const auto add = [&](const std::string& card, const std::string& port, const std::string& state) {
    fs::create_directories(sys / card / "ports" / port);
    std::ofstream(sys / card / "ports" / port / "state") << state << "\n";
  };
  add("class/infiniband/mlx5_1", "1", "4: ACTIVE");
  add("class/infiniband/mlx5_0", "1", "1: DOWN");
  add("class/infiniband/mlx5_0", "2", "4: ACTIVE");
  add("class/net/ib0/device/infiniband/mlx5_0", "2", "4: ACTIVE");
  EXPECT_EQ(cards_that_are_up({}, sys), (std::vector<std::string>{"mlx5_0:2", "mlx5_1:1"}));
  EXPECT_EQ(cards_that_are_up({"eth0", "ib0"}, sys), (std::vector<std::string>{"mlx5_0:2"}));
  EXPECT_TRUE(cards_that_are_up({}, sys / "nothing").empty());
  fs::remove_all(sys);
}

}  // namespace
}  // namespace tutti::comm
