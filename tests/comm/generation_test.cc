// Generations: the record, places in it, and a worker that goes from one to the next.
#include <gtest/gtest.h>
#include <tutti/comm/bootstrap/generation.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/tests/comm/store_test_support.h>

#include <thread>

namespace tutti::comm {
namespace {

using test::soon;
using test::text_of;

Generation generation(int number, std::vector<std::string> workers) {
  Generation result;
  result.number = number;
  result.first_size = 4;
  result.master_addr = "10.1.2.3";
  result.master_port = static_cast<std::uint16_t>(40000 + number);
  result.job_id = "job/" + std::to_string(number);
  result.workers = std::move(workers);
  return result;
}

TEST(Generation, ARecordComesBackFromItsText) {
  const Generation sent = generation(3, {"0.0.0", "0.1.2", "1.0.0"});
  const Generation back = generation_from_text(to_text(sent));
  EXPECT_EQ(back.number, 3);
  EXPECT_EQ(back.first_size, 4);
  EXPECT_EQ(back.master_addr, "10.1.2.3");
  EXPECT_EQ(back.master_port, 40003);
  EXPECT_EQ(back.job_id, "job/3");
  EXPECT_EQ(back.workers, sent.workers);
}

TEST(Generation, ARecordThatNoLauncherWroteIsRefused) {
  const std::string good = to_text(generation(1, {"0.0.0"}));
  for (const std::string part : {"{", R"("number":1)", R"("first_size":4)", R"("master_addr":"10.1.2.3")",
                                 R"("master_port":40001)", R"("0.0.0")"}) {
    for (const char* other : {R"("number":"x")", R"("number":-1)", R"("first_size":0)", R"("master_port":70000)"}) {
      std::string bad = good;
      bad.replace(bad.find(part), part.size(), other);
      test::expect_error(ErrorCode::Protocol, {bad}, [&] { generation_from_text(bad); });
    }
  }
  EXPECT_FALSE(text_of(ErrorCode::Protocol, [] { generation_from_text(""); }).empty());
  EXPECT_FALSE(text_of(ErrorCode::InvalidArgument, [] { WorkerId::from_text("0.1"); }).empty());
  EXPECT_FALSE(text_of(ErrorCode::InvalidArgument, [] { WorkerId::from_text("0.01.2"); }).empty());
  EXPECT_FALSE(text_of(ErrorCode::InvalidArgument, [] { WorkerId::from_text("0.-1.2"); }).empty());
}

TEST(Generation, APlaceHasItsNodesLocalRanks) {
  const Generation two_nodes = generation(2, {"0.0.0", "1.0.0", "0.1.1", "1.1.0", "1.2.0"});
  const auto world = place_in(two_nodes, "1.1.0", "secret");
  ASSERT_TRUE(world);
  EXPECT_EQ(test::place_of(*world), "rank 3 of 5, local rank 1 of 3");
  EXPECT_EQ(world->master_addr, "10.1.2.3");
  EXPECT_EQ(world->master_port, 40002);
  EXPECT_EQ(world->job_id, "job/2");
  EXPECT_EQ(world->job_secret, "secret");
  EXPECT_TRUE(world->launcher_owns_store);
  EXPECT_FALSE(place_in(two_nodes, "0.1.0", "secret"));
}

TEST(Generation, AWorkerWaitsForTheNextOneAndSkipsThoseThatAreOver) {
  const auto store = std::make_shared<HashStore>();
  GenerationMember member(store, "0.1.0", "secret", soon());
  EXPECT_TRUE(is_member(*store, "0.1.0", soon()));
  EXPECT_FALSE(is_member(*store, "0.1.1", soon()));
  std::thread launcher([&] { publish_generation(*store, generation(0, {"0.0.0", "0.1.0"}), soon()); });
  EXPECT_EQ(member.next(soon()).rank, 1);
  launcher.join();
  EXPECT_EQ(member.number(), 0);
  EXPECT_EQ(member.first_size(), 4);
  EXPECT_FALSE(member.newer_exists(soon()));
  EXPECT_FALSE(member.has_begun(soon()));
  member.set_begun(soon());
  EXPECT_TRUE(member.has_begun(soon()));
  EXPECT_FALSE(text_of(ErrorCode::Timeout, [&] { member.next(test::in_ms(20)); }).empty());

  publish_generation(*store, generation(1, {"0.0.0", "0.1.0", "0.2.0"}), soon());
  publish_generation(*store, generation(2, {"0.1.0", "0.2.0"}), soon());
  EXPECT_TRUE(member.newer_exists(soon()));
  const World world = member.next(soon());
  EXPECT_EQ(member.number(), 2);
  EXPECT_EQ(world.rank, 0);
  EXPECT_EQ(world.master_port, 40002);
}

TEST(Generation, WhoLeavesSaysWhy) {
  const auto store = std::make_shared<HashStore>();
  GenerationMember first(store, "0.0.0", "secret", soon());
  GenerationMember second(store, "0.1.0", "secret", soon());
  publish_generation(*store, generation(0, {"0.0.0", "0.1.0"}), soon());
  first.next(soon());
  second.next(soon());
  EXPECT_TRUE(left_generation(*store, 0, soon()).empty());
  second.leave("rank 2 is gone\nand more", soon());
  first.leave("no answer", soon());
  const auto left = left_generation(*store, 0, soon());
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0].worker, "0.1.0");
  EXPECT_EQ(left[0].reason, "rank 2 is gone and more");
  EXPECT_EQ(left[1].worker, "0.0.0");
}

TEST(Generation, AWorkerThatFailsForGoodSaysWhy) {
  const auto store = std::make_shared<HashStore>();
  GenerationMember member(store, "0.1.0", "secret", soon());
  EXPECT_TRUE(failed_for_good(*store, soon()).empty());
  member.fail_for_good("No space left\non device", soon());
  const auto failed = failed_for_good(*store, soon());
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].worker + ": " + failed[0].reason, "0.1.0: No space left on device");
}

TEST(Generation, AWorkerThatWasGivenUpIsTold) {
  const auto store = std::make_shared<HashStore>();
  GenerationMember member(store, "0.1.0", "secret", soon());
  publish_generation(*store, generation(0, {"0.0.0", "0.1.0"}), soon());
  member.next(soon());
  publish_generation(*store, generation(1, {"0.0.0", "0.1.1"}), soon());
  test::expect_error(ErrorCode::Aborted, {"0.1.0 has no place"}, [&] { member.next(soon()); });
}

TEST(Generation, ANewWorkerMayComeBeforeItsFirstOne) {
  const auto store = std::make_shared<HashStore>();
  publish_generation(*store, generation(0, {"0.0.0", "0.1.0"}), soon());
  GenerationMember member(store, "0.1.1", "secret", soon());
  std::thread launcher([&] { publish_generation(*store, generation(1, {"0.0.0", "0.1.1"}), soon()); });
  EXPECT_EQ(member.next(soon()).rank, 1);
  EXPECT_EQ(member.number(), 1);
  launcher.join();
}

TEST(Generation, NumbersOnlyGrow) {
  HashStore store;
  publish_generation(store, generation(1, {"0.0.0"}), soon());
  EXPECT_FALSE(text_of(ErrorCode::InvalidArgument, [&] {
                 publish_generation(store, generation(1, {"0.0.0"}), soon());
               }).empty());
}

TEST(Generation, AProcessOfAnElasticLauncherFindsTheControlStore) {
  TcpStoreServer server(test::server_options());
  test::Variables variables{{"TUTTI_CONTROL", "127.0.0.1:" + std::to_string(server.port())},
                            {"TUTTI_JOB_ID", "test job"},
                            {"TUTTI_JOB_SECRET", "test secret"}};
  const auto join = [&] { return GenerationMember::from_environment(soon(), test::environment_of(variables)); };
  test::expect_error(ErrorCode::InvalidArgument, {"TUTTI_WORKER"}, [&] { join(); });
  variables["TUTTI_WORKER"] = "0.0.0";
  const auto member = join();
  ASSERT_NE(member, nullptr);
  TcpStore launcher(test::client_options(server.port()), soon());
  EXPECT_TRUE(is_member(launcher, "0.0.0", soon()));
  publish_generation(launcher, generation(0, {"0.0.0"}), soon());
  EXPECT_EQ(member->next(soon()).job_secret, "test secret");

  variables["TUTTI_CONTROL"] = "nowhere";
  test::expect_error(ErrorCode::InvalidArgument, {"HOST:PORT"}, [&] { join(); });
  variables.erase("TUTTI_CONTROL");
  EXPECT_EQ(join(), nullptr);
}

}  // namespace
}  // namespace tutti::comm
