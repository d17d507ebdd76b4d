// Which of a host's addresses other hosts are told, for hosts that are written down here as they were found: nothing
// here depends on the machine that runs it.
#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/rank_addresses.h>
#include <tutti/comm/wire/local_address.h>

#include <cerrno>
#include <chrono>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;
using Kind = InterfaceAddress::Kind;

InterfaceAddress loopback() { return {.interface = "lo", .address = "127.0.0.1", .prefix = 8, .kind = Kind::Loopback}; }

InterfaceAddress card(const std::string& name, const std::string& address, int megabits = 0) {
  return {.interface = name, .address = address, .prefix = 24, .megabits = megabits};
}

/// A node of a cluster: a slow network to manage it, a fast one for data, and what container software leaves.
AddressQuestion node() {
  return {.interfaces = {loopback(),
                         {.interface = "lo", .address = "::1", .prefix = 128, .kind = Kind::Loopback},
                         card("eno1", "10.1.0.7", 1000),
                         card("eno1", "fe80::1", 1000),
                         {.interface = "docker0", .address = "172.17.0.1", .prefix = 16, .kind = Kind::Virtual},
                         {.interface = "eno2", .address = "10.3.0.7", .prefix = 24, .up = false},
                         card("ib0", "10.2.0.7", 100000),
                         card("ib0", "fd02::7", 100000)},
          .towards_store = "10.1.0.7",
          .default_route = "10.1.0.7",
          .wanted_by = "TUTTI_IFACE"};
}

std::string chosen(const AddressQuestion& question) {
  std::string text;
  for (const ChosenAddress& one : choose_addresses(question).chosen) text += (text.empty() ? "" : " ") + one.address;
  return text;
}

TEST(ChooseAddresses, TheWayToTheStoreFirstThenTheFastOnes) {
  EXPECT_EQ(chosen(node()), "10.1.0.7 10.2.0.7 fd02::7");
  AddressQuestion by_file = node();
  by_file.towards_store = "";
  EXPECT_EQ(chosen(by_file), "10.1.0.7 10.2.0.7 fd02::7");
  by_file.default_route = "";
  EXPECT_EQ(chosen(by_file), "10.2.0.7 fd02::7 10.1.0.7");
}

TEST(ChooseAddresses, SaysWhatWasChosenAndWhy) {
  EXPECT_EQ(choose_addresses(node()).text(),
            "10.1.0.7 (eno1: it reached the store), 10.2.0.7 (ib0: also up), fd02::7 (ib0: also up)");
}

TEST(ChooseAddresses, WarnsWhereAFasterInterfaceIsPassedOver) {
  EXPECT_EQ(
      choose_addresses(node()).slow,
      "ranks of other hosts reach this one by eno1 (1 Gbit/s), though ib0 (10.2.0.7, 100 Gbit/s) is faster: if it "
      "leads to all hosts, set TUTTI_IFACE=ib0");
  AddressQuestion fast = node();
  fast.towards_store = "10.2.0.7";
  EXPECT_EQ(choose_addresses(fast).slow, "");
  AddressQuestion unknown = node();
  for (InterfaceAddress& one : unknown.interfaces)
    if (one.interface == "eno1") one.megabits = 0;
  EXPECT_EQ(choose_addresses(unknown).slow, "");
}

TEST(ChooseAddresses, ABridgeThatReachedTheStoreIsAGoodOne) {
  AddressQuestion question = node();
  question.towards_store = "172.17.0.1";  // the only network of a virtual machine's host, say
  EXPECT_EQ(chosen(question), "172.17.0.1 10.1.0.7 10.2.0.7 fd02::7");
}

TEST(ChooseAddresses, TheWayToTheStoreIsToldThoughNoInterfaceHasIt) {
  AddressQuestion question = node();
  question.towards_store = "10.9.0.1";
  EXPECT_EQ(chosen(question), "10.9.0.1 10.1.0.7 10.2.0.7 fd02::7");
  EXPECT_EQ(chosen({.towards_store = "10.9.0.1"}), "10.9.0.1");
}

TEST(ChooseAddresses, OnOneHostTheWayToTheStoreIsAll) {
  AddressQuestion question = node();
  question.several_hosts = false;
  question.towards_store = "127.0.0.1";
  EXPECT_EQ(chosen(question), "127.0.0.1");
  question.towards_store = "";
  EXPECT_EQ(chosen(question), "127.0.0.1");
}

TEST(ChooseAddresses, AHostThatReachedItsStoreByLoopbackTellsAnotherAddress) {
  AddressQuestion question = node();
  question.towards_store = "127.0.0.1";  // MASTER_ADDR is its own name, which is 127.0.1.1 in /etc/hosts
  question.default_route = "";
  EXPECT_EQ(chosen(question), "10.2.0.7 fd02::7 10.1.0.7");
}

TEST(ChooseAddresses, WithoutAnyOtherLoopbackIsLeft) {
  EXPECT_EQ(chosen({.interfaces = {loopback()}}), "127.0.0.1");
  EXPECT_EQ(chosen({.interfaces = {loopback()}, .towards_store = "127.0.1.1"}), "127.0.1.1");
  const InterfaceAddress v6{.interface = "lo", .address = "::1", .prefix = 128, .kind = Kind::Loopback};
  EXPECT_EQ(chosen({.interfaces = {v6}}), "::1");
  EXPECT_EQ(chosen({.interfaces = {v6}, .several_hosts = false}), "::1");
  EXPECT_EQ(chosen({.interfaces = {v6, loopback()}, .several_hosts = false}), "127.0.0.1");
}

TEST(ChooseAddresses, FourAreEnough) {
  AddressQuestion question;
  for (int i = 1; i <= 6; ++i)
    question.interfaces.push_back(card("eth" + std::to_string(i), "10.0." + std::to_string(i) + ".1"));
  EXPECT_EQ(chosen(question), "10.0.1.1 10.0.2.1 10.0.3.1 10.0.4.1");
}

TEST(ChooseAddresses, ByNamePatternAddressAndNetwork) {
  const auto with = [](const std::string& wanted) {
    AddressQuestion question = node();
    question.wanted = wanted;
    return question;
  };
  EXPECT_EQ(chosen(with("ib0")), "10.2.0.7 fd02::7");
  EXPECT_EQ(chosen(with("eno*")), "10.1.0.7");
  EXPECT_EQ(chosen(with("[ie]*")), "10.1.0.7 10.2.0.7 fd02::7");
  EXPECT_EQ(chosen(with("docker0")), "172.17.0.1");  // who names it means it
  EXPECT_EQ(chosen(with("10.2.0.7")), "10.2.0.7");
  EXPECT_EQ(chosen(with("10.2.0.0/15")), "10.2.0.7");
  EXPECT_EQ(chosen(with("fd00::/8")), "fd02::7");
  EXPECT_EQ(chosen(with("10.0.0.0/8")), "10.1.0.7 10.2.0.7");
  EXPECT_EQ(choose_addresses(with("ib0")).text(), "10.2.0.7 (ib0: TUTTI_IFACE=ib0), fd02::7 (ib0: TUTTI_IFACE=ib0)");
}

TEST(ChooseAddresses, RefusesWhatIsNotThereOrDownWithAListOfWhatIs) {
  AddressQuestion question = node();
  question.wanted = "eth0";
  expect_error(ErrorCode::InvalidArgument,
               {"TUTTI_IFACE=\"eth0\" fits no interface of this host; there are: lo 127.0.0.1/8, ",
                "eno2 10.3.0.7/24 (down)", "ib0 10.2.0.7/24"},
               [&] { choose_addresses(question); });
  question.wanted = "eno2";
  expect_error(ErrorCode::InvalidArgument, {"is down, or has no cable"}, [&] { choose_addresses(question); });
  for (const char* nonsense : {"10.2.0.0/33", "10.2.0.0/", "10.2.0/8", "/8", "ib0/1"}) {
    question.wanted = nonsense;
    EXPECT_THROW(choose_addresses(question), Error) << nonsense;
  }
}

RankAddress rank_at(const std::vector<std::string>& endpoints, const std::string& identity) {
  return {.endpoints = endpoints, .host = "host-" + identity, .pid = "1", .identity = identity};
}

TEST(RankAddresses, AnAddressOfTwoHostsIsTakenOutOnAll) {
  std::vector<RankAddress> ranks{rank_at({"10.0.0.1:5", "172.17.0.1:6"}, "a:0:1:1"),
                                 rank_at({"10.0.0.1:7", "172.17.0.1:8"}, "a:0:2:1"),  // the same host
                                 rank_at({"172.17.0.1:9", "10.0.0.2:1"}, "b:0:1:1"),
                                 rank_at({"[fd00::3]:5"}, "c:0:1:1")};
  keep_reachable(0, ranks);
  const std::vector<std::vector<std::string>> left{{"10.0.0.1:5"}, {"10.0.0.1:7"}, {"10.0.0.2:1"}, {"[fd00::3]:5"}};
  for (std::size_t rank = 0; rank < left.size(); ++rank) EXPECT_EQ(ranks[rank].endpoints, left[rank]);
}

TEST(RankAddresses, WithNoOtherThanOneOfTwoHostsBothRanksAreNamed) {
  std::vector<RankAddress> ranks{rank_at({"10.0.0.1:5"}, "a"), rank_at({"192.168.1.1:5"}, "b"),
                                 rank_at({"192.168.1.1:6"}, "c")};
  expect_error(ErrorCode::InvalidArgument,
               {"rank 1 (host-b, pid 1) can be reached at 192.168.1.1 only, which rank 2 on another host (host-c, "
                "pid 1) has too",
                "TUTTI_IFACE"},
               [&] { keep_reachable(0, ranks); });
}

TEST(RankAddresses, AreReadAsTheyWereWritten) {
  const RankAddress written{
      {"10.0.0.2:1", "[fd00::2]:65535"}, "alpha", "17", "boot:0:1:2", "10.0.0.2:4711", {{"encrypt", "yes"}}};
  const RankAddress read = from_line(to_line(written));
  EXPECT_EQ(read.endpoints, written.endpoints);
  EXPECT_EQ(read.host, "alpha");
  EXPECT_EQ(read.pid, "17");
  EXPECT_EQ(read.identity, "boot:0:1:2");
  EXPECT_EQ(read.ucx, "10.0.0.2:4711");
  EXPECT_EQ(read.settings, written.settings);
  expect_error(ErrorCode::Protocol, {"10.0.0.2:1 alpha 17"}, [] { from_line("10.0.0.2:1 alpha 17"); });
}

TEST(RankAddresses, LoopbackIsEnoughForProcessesOfOneNetworkOnly) {
  // Two containers on one host with the host's network: other processes, other users, the same interfaces.
  std::vector<RankAddress> together{rank_at({"127.0.0.1:5"}, "boot:0:1:9"), rank_at({"127.0.0.1:6"}, "boot:1000:2:9")};
  keep_reachable(0, together);
  EXPECT_EQ(together[1].endpoints.front(), "127.0.0.1:6");
  for (const int self : {0, 1}) {
    std::vector<RankAddress> apart{rank_at({"127.0.0.1:5"}, "boot:0:1:9"), rank_at({"10.0.0.1:6"}, "other:0:1:9")};
    expect_error(ErrorCode::System,
                 {"rank " + std::to_string(self) + "/2: rank 0 (host host-boot:0:1:9) listens on 127.0.0.1:5 " +
                  "only, which rank 1 (host host-other:0:1:9) cannot reach"},
                 [&] { keep_reachable(self, apart); });
  }
}

TEST(RankAddresses, ThoseOfManyRanksAreLookedThroughOnce) {
  std::vector<RankAddress> ranks(30'000, rank_at({"127.0.0.1:5"}, "boot:0:1:9"));
  const auto begin = std::chrono::steady_clock::now();
  keep_reachable(0, ranks);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));  // each with each: minutes
}

TEST(RankAddresses, TheStoreListensWhereItIsToldUnlessThatIsAName) {
  World world;
  world.world_size = 2;
  for (const char* address : {"127.0.0.1", "10.1.2.3", "::1", "localhost"}) {
    world.master_addr = address;
    EXPECT_EQ(store_bind_address(world), address);
  }
}

TEST(LocalAddress, EndpointsAreTakenApart) {
  EXPECT_EQ(address_of_endpoint("10.0.0.2:4000"), "10.0.0.2");
  EXPECT_EQ(address_of_endpoint("[fd00::2]:4000"), "fd00::2");
  EXPECT_TRUE(is_loopback_address(address_of_endpoint("127.1.2.3:1")));
  EXPECT_TRUE(is_loopback_address(address_of_endpoint("[::1]:1")));
  EXPECT_FALSE(is_loopback_address(address_of_endpoint("[::2]:1")));
  EXPECT_FALSE(is_loopback_address(address_of_endpoint("10.127.0.1:1")));
}

TEST(LocalAddress, ThisHostHasALoopbackInterfaceAndARouteToItself) {
  bool found = false;
  for (const InterfaceAddress& one : interface_addresses())
    found = found || (one.address == "127.0.0.1" && one.kind == Kind::Loopback && one.up && one.prefix == 8);
  EXPECT_TRUE(found);
  EXPECT_EQ(route_source("127.0.0.1"), "127.0.0.1");
  EXPECT_FALSE(connect_hint(ECONNREFUSED).empty());
  EXPECT_TRUE(connect_hint(0).empty());
}

}  // namespace
}  // namespace tutti::comm
