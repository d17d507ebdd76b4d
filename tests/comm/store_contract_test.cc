// One suite for every store: what Store promises, HashStore, PrefixStore, TcpStore and FileStore keep.
#include <gtest/gtest.h>
#include <tutti/comm/store/file_store.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/store/prefix_store.h>
#include <tutti/tests/support/in_threads.h>

#include <atomic>
#include <limits>
#include <memory>
#include <thread>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;

struct Subject {
  std::unique_ptr<TcpStoreServer> server;
  std::unique_ptr<TemporaryFolder> folder;
  std::shared_ptr<Store> store;
};

Subject in_process(std::shared_ptr<Store> store) { return {nullptr, nullptr, std::move(store)}; }

Subject with_prefix(Subject subject) {
  subject.store = std::make_shared<PrefixStore>("group", subject.store);
  return subject;
}

Subject in_file() {
  auto folder = std::make_unique<TemporaryFolder>();
  auto store = std::make_shared<FileStore>(FileStoreOptions{.path = folder->file("store")}, soon());
  return {nullptr, std::move(folder), std::move(store)};
}

Subject over_tcp() {
  auto server = std::make_unique<TcpStoreServer>(server_options());
  auto store = std::make_shared<TcpStore>(client_options(server->port()), soon());
  return {std::move(server), nullptr, std::move(store)};
}

struct Kind {
  const char* name;
  Subject (*make)();
};

class StoreContract : public testing::TestWithParam<Kind> {
 protected:
  Subject subject_ = GetParam().make();
  Store& store_ = *subject_.store;
};

TEST_P(StoreContract, GetReturnsWhatWasSet) {
  store_.set("k", "v", soon());
  EXPECT_EQ(store_.get("k", soon()), "v");
  store_.set("k", "", soon());
  EXPECT_EQ(store_.get("k", soon()), "");
  const std::string bytes("\0\xff\n\"", 4);
  store_.set(bytes, bytes, soon());
  EXPECT_EQ(store_.get(bytes, soon()), bytes);
}

TEST_P(StoreContract, LargeValuesComeBackWhole) {
  std::string value(3'000'000, 'x');
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 31 % 251);
  store_.set("large", value, soon());
  EXPECT_TRUE(store_.get("large", soon()) == value);
  store_.append("large", value, soon());
  EXPECT_TRUE(store_.get("large", soon()) == value + value);
}

TEST_P(StoreContract, GetTimesOutNamingTheKey) {
  expect_error(ErrorCode::Timeout, {"absent\"", "timed out after 0.0"}, [&] { store_.get("absent", in_ms(20)); });
  EXPECT_FALSE(store_.check(keys({"absent"}), soon()));
}

TEST_P(StoreContract, WaitTimesOutNamingOnlyTheMissingKeys) {
  store_.set("here", "1", soon());
  const std::string text = text_of(ErrorCode::Timeout, [&] {
    store_.wait(keys({"gone1", "here", "gone2"}), in_ms(20));
  });
  expect_parts(text, {"2 of 3 keys", "gone1\"", "gone2\""});
  expect_absent(text, {"here\""});
  EXPECT_EQ(store_.get("here", soon()), "1");
}

TEST_P(StoreContract, TimeoutOfManyKeysIsShort) {
  std::vector<std::string> many;
  for (int i = 0; i < 1000; ++i) many.push_back("key" + std::to_string(i));
  const std::string text = text_of(ErrorCode::Timeout, [&] { store_.wait(many, in_ms(5)); });
  expect_parts(text, {"and 984 more"});
  EXPECT_LT(text.size(), 1000u);
}

TEST_P(StoreContract, PassedDeadlineStillFindsWhatIsThere) {
  store_.set("k", "v", soon());
  EXPECT_EQ(store_.get("k", in_ms(0)), "v");
  store_.wait(keys({"k"}), in_ms(-5));
}

TEST_P(StoreContract, WaitForNothingEndsAtOnce) {
  store_.wait({}, soon());
  EXPECT_TRUE(store_.multi_get({}, soon()).empty());
  EXPECT_TRUE(store_.check({}, soon()));
}

TEST_P(StoreContract, AnotherThreadsSetEndsAWait) {
  std::string got;
  std::thread waiter([&] { got = store_.get("signal", soon()); });
  // The same object serves this thread while the other waits.
  for (int i = 0; i < 50; ++i) store_.add("busy", 1, soon());
  store_.set("signal", "now", soon());
  waiter.join();
  EXPECT_EQ(got, "now");
  EXPECT_EQ(store_.get("busy", soon()), "50");
}

TEST_P(StoreContract, EveryKindOfWriteEndsAWait) {
  const auto wanted = keys({"set", "add", "compare_set", "append", "multi_set"});
  std::vector<std::string> got;
  std::thread waiter([&] { got = store_.multi_get(wanted, soon()); });
  store_.append("append", "d", soon());
  store_.compare_set("compare_set", "", "c", soon());
  store_.add("add", 2, soon());
  store_.multi_set(keys({"multi_set"}), keys({"e"}), soon());
  store_.set("set", "a", soon());
  waiter.join();
  EXPECT_EQ(got, keys({"a", "2", "c", "d", "e"}));
}

TEST_P(StoreContract, ManyThreadsMayWaitAtOnce) {
  std::atomic<int> woken = 0;
  in_threads(9, [&](int i) {
    if (i == 8) return store_.multi_set(keys({"even", "go", "odd"}), keys({"", "", ""}), soon());
    store_.add("started", 1, soon());
    store_.wait(keys({"go", i % 2 == 0 ? "even" : "odd"}), soon());
    ++woken;
  });
  EXPECT_EQ(woken, 8);
  EXPECT_EQ(store_.get("started", soon()), "8");
}

TEST_P(StoreContract, AddCountsFromZeroAndBothWays) {
  EXPECT_EQ(store_.add("n", 5, soon()), 5);
  EXPECT_EQ(store_.add("n", -7, soon()), -2);
  EXPECT_EQ(store_.get("n", soon()), "-2");
  store_.set("n", "40", soon());
  EXPECT_EQ(store_.add("n", 2, soon()), 42);
}

TEST_P(StoreContract, AddLeavesWhatIsNoNumber) {
  for (const char* value : {"", "x", "12x", " 1", "+1", "1.5", "9223372036854775808"}) {
    store_.set("n", value, soon());
    expect_error(ErrorCode::InvalidArgument, {"n\"", "\"" + std::string(value) + "\""},
                 [&] { store_.add("n", 1, soon()); });
    EXPECT_EQ(store_.get("n", soon()), value);
  }
}

TEST_P(StoreContract, AddDoesNotOverflow) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(store_.add("n", kMost, soon()), kMost);
  text_of(ErrorCode::InvalidArgument, [&] { store_.add("n", 1, soon()); });
  EXPECT_EQ(store_.get("n", soon()), std::to_string(kMost));
  EXPECT_EQ(store_.add("m", kLeast, soon()), kLeast);
  text_of(ErrorCode::InvalidArgument, [&] { store_.add("m", -1, soon()); });
  EXPECT_EQ(store_.add("m", kMost, soon()), -1);
}

TEST_P(StoreContract, CompareSetSetsOnlyWhatItExpects) {
  EXPECT_EQ(store_.compare_set("k", "something", "new", soon()), "");
  EXPECT_FALSE(store_.check(keys({"k"}), soon()));
  EXPECT_EQ(store_.compare_set("k", "", "first", soon()), "first");
  EXPECT_EQ(store_.compare_set("k", "", "second", soon()), "first");
  EXPECT_EQ(store_.compare_set("k", "first", "second", soon()), "second");
  EXPECT_EQ(store_.get("k", soon()), "second");
}

TEST_P(StoreContract, CompareSetHasOneWinner) {
  std::atomic<int> winners = 0;
  in_threads(6, [&](int i) {
    const std::string mine = "thread " + std::to_string(i);
    if (store_.compare_set("leader", "", mine, soon()) == mine) ++winners;
  });
  EXPECT_EQ(winners, 1);
}

TEST_P(StoreContract, CheckDeleteAndNumKeys) {
  EXPECT_EQ(store_.num_keys(soon()), 0);
  store_.multi_set(keys({"a", "b"}), keys({"1", "2"}), soon());
  EXPECT_EQ(store_.num_keys(soon()), 2);
  EXPECT_TRUE(store_.check(keys({"a", "b"}), soon()));
  EXPECT_FALSE(store_.check(keys({"a", "c"}), soon()));
  EXPECT_TRUE(store_.delete_key("a", soon()));
  EXPECT_FALSE(store_.delete_key("a", soon()));
  EXPECT_FALSE(store_.check(keys({"a"}), soon()));
  EXPECT_EQ(store_.num_keys(soon()), 1);
}

TEST_P(StoreContract, AppendStartsEmpty) {
  store_.append("log", "a", soon());
  store_.append("log", "bc", soon());
  EXPECT_EQ(store_.get("log", soon()), "abc");
}

TEST_P(StoreContract, MultiGetKeepsOrderAndMultiSetChecksLengths) {
  store_.multi_set(keys({"a", "b", "a"}), keys({"1", "2", "3"}), soon());
  EXPECT_EQ(store_.multi_get(keys({"b", "a", "b"}), soon()), keys({"2", "3", "2"}));
  expect_error(ErrorCode::InvalidArgument, {"2 keys but 1 values"}, [&] {
    store_.multi_set(keys({"x", "y"}), keys({"1"}), soon());
  });
  EXPECT_FALSE(store_.check(keys({"x"}), soon()));
}

TEST_P(StoreContract, LimitsAreErrorsThatNameThem) {
  const std::string long_key(9000, 'k');
  expect_error(ErrorCode::InvalidArgument, {"limit is 8192"}, [&] { store_.set(long_key, "v", soon()); });
  const std::vector<std::string> too_many(128 * 1024 + 1, "k");
  expect_error(ErrorCode::InvalidArgument, {"limit is 131072"}, [&] { store_.check(too_many, soon()); });
  EXPECT_EQ(store_.num_keys(soon()), 0);
}

TEST_P(StoreContract, ValueLimitHoldsForSetAndForAppend) {
  const std::string half(33 * 1024 * 1024, 'v');
  store_.set("k", half, soon());
  expect_error(ErrorCode::InvalidArgument, {"67108864"}, [&] { store_.append("k", half, soon()); });
  EXPECT_EQ(store_.get("k", soon()).size(), half.size());
  expect_error(ErrorCode::InvalidArgument, {"67108864"}, [&] { store_.set("k", half + half, soon()); });
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreContract,
    testing::Values(Kind{"Hash", [] { return in_process(std::make_shared<HashStore>()); }},
                    Kind{"Prefix", [] { return with_prefix(in_process(std::make_shared<HashStore>())); }},
                    Kind{"Tcp", over_tcp}, Kind{"PrefixOverTcp", [] { return with_prefix(over_tcp()); }},
                    Kind{"File", in_file}),
    [](const auto& suite) { return suite.param.name; });

TEST(PrefixStore, JoinsWithASlashAndSharesTheStoreBelow) {
  const auto below = std::make_shared<HashStore>();
  PrefixStore left("left", below);
  PrefixStore right("right", below);
  left.set("k", "1", soon());
  right.set("k", "2", soon());
  EXPECT_EQ(below->get("left/k", soon()), "1");
  EXPECT_EQ(right.get("k", soon()), "2");
  expect_error(ErrorCode::Timeout, {"\"left/absent\""}, [&] { left.get("absent", in_ms(1)); });
}

TEST(PrefixStore, RefusesNoStore) {
  expect_error(ErrorCode::InvalidArgument, {"no store"}, [] { PrefixStore("p", nullptr); });
}

}  // namespace
}  // namespace tutti::comm
