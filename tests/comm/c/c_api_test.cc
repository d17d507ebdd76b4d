// The C API on several ranks: as threads here, as processes of a C89 and a C11 program (c_rank.c), and its shared
// object.
#include <tutti/tests/comm/c/c_world.h>
#include <tutti/tests/support/run_processes.h>

#include <cstddef>
#include <future>
#include <regex>
#include <set>
#include <sstream>

namespace tutti::test {
namespace {

TEST(CAbi, NumbersAndLayoutsStayAsTheyAre) {
  EXPECT_EQ(tutti_abi_version(), TUTTI_C_ABI_VERSION);
  EXPECT_STREQ(tutti_version(), TUTTI_EXPECTED_VERSION);
  EXPECT_STREQ(tutti_result_name(TUTTI_OPERATOR), "TUTTI_OPERATOR");
  EXPECT_STREQ(tutti_result_name(1234), "unknown result");
  const std::vector<int> results{TUTTI_OK,       TUTTI_INVALID_ARGUMENT, TUTTI_TIMEOUT,      TUTTI_PEER_LOST,
                                 TUTTI_PROTOCOL, TUTTI_MISMATCH,         TUTTI_UNAUTHORIZED, TUTTI_ABORTED,
                                 TUTTI_SYSTEM,   TUTTI_OPERATOR,         TUTTI_INTERNAL};
  const std::vector<int> dtypes{TUTTI_FLOAT32,  TUTTI_FLOAT64, TUTTI_INT32,  TUTTI_INT64,  TUTTI_UINT8, TUTTI_FLOAT16,
                                TUTTI_BFLOAT16, TUTTI_INT8,    TUTTI_UINT16, TUTTI_UINT64, TUTTI_BOOL};
  const std::vector<int> ops{TUTTI_SUM, TUTTI_AVG, TUTTI_PROD, TUTTI_MIN, TUTTI_MAX, TUTTI_BAND, TUTTI_BOR, TUTTI_BXOR};
  for (const auto& numbers : {results, dtypes, ops})
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], static_cast<int>(i));
  const std::vector<std::size_t> sizes{4, 8, 4, 8, 1, 2, 2, 1, 2, 8, 1};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::size_t nbytes = 0;
    EXPECT_EQ(tutti_size_of(dtypes[i], &nbytes), TUTTI_OK);
    EXPECT_EQ(nbytes, sizes[i]);
  }
  // The first version's structs, which are never to change but at their end.
  static_assert(sizeof(void*) != 8 || (sizeof(tutti_world_options) == 48 && offsetof(tutti_world_options, rank) == 8 &&
                                       offsetof(tutti_world_options, launcher) == 40));
  static_assert(sizeof(void*) != 8 ||
                (sizeof(tutti_world_info) == 64 && offsetof(tutti_world_info, master_addr) == 32 &&
                 offsetof(tutti_world_info, detected_from) == 56));
  static_assert(sizeof(void*) != 8 ||
                (sizeof(tutti_group_options) == 88 && offsetof(tutti_group_options, report_after_ms) == 24 &&
                 offsetof(tutti_group_options, encrypt) == 76 && offsetof(tutti_group_options, trace_file) == 80));
  static_assert(sizeof(void*) != 8 || (sizeof(tutti_group_info) == 40 && offsetof(tutti_group_info, transport) == 32));
}

TEST(CAbi, TheSharedObjectShowsTheFunctionsOfTheHeadersAndNothingElse) {
  const Finished preprocessed = run_program({TUTTI_C_COMPILER, "-E", "-P", "-I", TUTTI_INCLUDE, TUTTI_C_RANK_SOURCE});
  ASSERT_EQ(preprocessed.status, ExitStatus{}) << preprocessed.err;
  std::set<std::string> declared, shown;
  const std::regex declaration(R"(\b(?:int|const char ?\*|tutti_result) ?(tutti_\w+)\()");
  const std::string& text = preprocessed.out;
  for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) declared.insert((*it)[1]);
  const Finished symbols = run_program({"nm", "-D", "--defined-only", "--format=posix", TUTTI_C_LIBRARY});
  ASSERT_EQ(symbols.status, ExitStatus{}) << symbols.err;
  std::istringstream lines(symbols.out);
  for (std::string line; std::getline(lines, line);)
    if (const std::string name = line.substr(0, line.find_first_of(" @")); name != "TUTTI_1") shown.insert(name);
  EXPECT_EQ(shown, declared);
  EXPECT_GT(declared.size(), 60u);
}

class CProgram : public ::testing::TestWithParam<const char*> {};

TEST_P(CProgram, DoesEverythingAsSeveralProcesses) {
  const Watchdog watchdog;
  for (const int size : {3, 4}) {
    Processes ranks({.command = {GetParam()}, .count = size});
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(ranks.wait(rank), ExitStatus{}) << ranks.err(rank);
      EXPECT_EQ(ranks.out(rank), "rank " + std::to_string(rank) + " of " + std::to_string(size) + ": all well\n");
      EXPECT_EQ(ranks.err(rank), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(C89AndC11, CProgram, ::testing::Values(TUTTI_C89_RANK, TUTTI_C11_RANK),
                         [](const auto& instance) { return instance.index == 0 ? "C89" : "C11"; });

/// What the ranks of c_rank print in a world that fails; rank `missing` is expected to end with `status`.
std::vector<std::string> failing(const std::string& how, int missing = -1, int status = 0) {
  const Watchdog watchdog;
  Processes ranks({.command = {TUTTI_C89_RANK, how}, .count = 3});
  std::vector<std::string> texts;
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ranks.wait(rank), (ExitStatus{false, rank == missing ? status : 0})) << ranks.err(rank);
    texts.push_back(ranks.out(rank));
  }
  return texts;
}

TEST(CFailures, AMismatchShowsBothSides) {
  int sides = 0;
  for (const std::string& text : failing("mismatch")) {
    EXPECT_TRUE(text.starts_with("TUTTI_MISMATCH: ") || text.starts_with("TUTTI_ABORTED: ")) << text;
    sides += text.starts_with("TUTTI_MISMATCH: ");
    expect_parts(text, {"(sum int32 x 3)", "(sum int32 x 4)", ", cause: rank "});
  }
  EXPECT_GE(sides, 1);
}

TEST(CFailures, AnOperatorThatRefusesFailsTheGroupWithItsName) {
  const auto texts = failing("operator");  // of rank 0, which adds in every algorithm
  EXPECT_TRUE(texts[0].starts_with("TUTTI_OPERATOR: ")) << texts[0];
  for (const std::string& text : texts) {
    expect_parts(text, {"the operator 'refuses' threw: it returned 7", "rank 0/3"});
  }
}

TEST(CFailures, ALostRankIsNamed) {
  const auto texts = failing("dies", 1, 3);
  EXPECT_EQ(texts[1], "");
  for (const int rank : {0, 2}) {
    const std::string& text = texts[static_cast<std::size_t>(rank)];
    expect_parts(text, {"lost rank 1 "});
    EXPECT_TRUE(text.starts_with("TUTTI_PEER_LOST: ") || text.starts_with("TUTTI_ABORTED: ")) << text;
  }
}

TEST(CGroups, WorkOutlivesItsGroupAndSaysWhatBecameOfIt) {
  run_c_ranks(2, [](tutti_group*& group, int rank) {
    if (rank == 1) return;  // leaves without taking part
    float value = 0;
    tutti_work *receive = nullptr, *reduce = nullptr;
    ASSERT_EQ(tutti_irecv(group, &value, 1, TUTTI_FLOAT32, 1, 0, &receive), TUTTI_OK);
    ASSERT_EQ(tutti_all_reduce_async(group, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, &reduce), TUTTI_OK);
    std::thread waiting([&] { EXPECT_NE(tutti_work_wait(receive), TUTTI_OK); });
    EXPECT_EQ(tutti_free(group), TUTTI_OK) << last_error();
    waiting.join();
    int completed = 0;
    EXPECT_NE(tutti_work_wait(reduce), TUTTI_OK);
    EXPECT_NE(last_error(), "");
    EXPECT_NE(tutti_work_test(reduce, &completed), TUTTI_OK);
    EXPECT_EQ(completed, 1);
    EXPECT_NE(tutti_work_wait_for(receive, 0, &completed), TUTTI_OK);
    EXPECT_EQ(tutti_work_free(receive), TUTTI_OK);
    EXPECT_EQ(tutti_work_free(reduce), TUTTI_OK);
    EXPECT_EQ(tutti_barrier(group), TUTTI_INVALID_ARGUMENT);
    group = nullptr;
  });
}

/// What a callback was told.
struct Told {
  std::promise<void> promise;
  static void tell(void* told) { static_cast<Told*>(told)->promise.set_value(); }
};

TEST(CGroups, MeetByAnInvitationAndCallBackWhenWorkIsComplete) {
  const Watchdog watchdog;
  char text[TUTTI_INVITATION_SIZE];
  EXPECT_EQ(tutti_invite(2, 1, text, 10), TUTTI_INVALID_ARGUMENT);
  ASSERT_EQ(tutti_invite(2, 1, text, sizeof(text)), TUTTI_OK) << last_error();
  const auto be_rank = [&](int rank) {
    tutti_world_options place;
    tutti_world_options_init(&place, sizeof(place));
    place.rank = rank;
    place.world_size = 2;
    place.store = text;
    tutti_world* world = nullptr;
    tutti_group* group = nullptr;
    ASSERT_EQ(tutti_world_detect(&place, &world), TUTTI_OK) << last_error();
    ASSERT_EQ(tutti_connect(world, nullptr, &group), TUTTI_OK) << last_error();
    EXPECT_EQ(tutti_world_free(world), TUTTI_OK);
    float value = static_cast<float>(rank + 1), never = 0;
    Told reduced, ended, again;
    tutti_work *reduce = nullptr, *receive = nullptr;
    ASSERT_EQ(tutti_all_reduce_async(group, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, &reduce), TUTTI_OK);
    EXPECT_EQ(tutti_work_on_completion(reduce, nullptr, nullptr), TUTTI_INVALID_ARGUMENT);
    ASSERT_EQ(tutti_work_on_completion(reduce, Told::tell, &reduced), TUTTI_OK);
    reduced.promise.get_future().wait();
    EXPECT_EQ(value, 3);
    ASSERT_EQ(tutti_work_on_completion(reduce, Told::tell, &again), TUTTI_OK);  // at once
    EXPECT_EQ(again.promise.get_future().wait_for(std::chrono::seconds(0)), std::future_status::ready);
    ASSERT_EQ(tutti_irecv(group, &never, 1, TUTTI_FLOAT32, 1 - rank, 0, &receive), TUTTI_OK);
    ASSERT_EQ(tutti_work_on_completion(receive, Told::tell, &ended), TUTTI_OK);
    EXPECT_EQ(tutti_work_free(receive), TUTTI_OK);
    EXPECT_EQ(tutti_work_free(reduce), TUTTI_OK);
    EXPECT_EQ(tutti_free(group), TUTTI_OK);
    ended.promise.get_future().wait();
  };
  std::thread other(be_rank, 1);
  be_rank(0);
  other.join();
}

TEST(CGroups, AnAbortReachesTheOthersWithItsReason) {
  run_c_ranks(2, [](tutti_group* group, int rank) {
    ASSERT_EQ(tutti_barrier(group), TUTTI_OK);
    if (rank == 0) {
      EXPECT_EQ(tutti_abort(group, "the disk is full"), TUTTI_OK);
    } else {
      EXPECT_NE(tutti_barrier(group), TUTTI_OK);
      const char* failure = nullptr;
      EXPECT_EQ(tutti_group_error(group, &failure), TUTTI_OK);
      expect_parts(failure, {"the disk is full"});
    }
  });
}

TEST(CGroups, ATimeoutOfTheStoreNamesTheKeyAndFailsNoGroup) {
  run_c_ranks(2, [](tutti_group* group, int) {
    std::size_t nbytes = 0;
    EXPECT_EQ(tutti_store_get(group, "nobody sets it", nullptr, 0, &nbytes, 20), TUTTI_TIMEOUT);
    expect_parts(last_error(), {"nobody sets it"});
    EXPECT_EQ(tutti_store_set(group, "short", "abc", 3, 20000), TUTTI_OK);
    char room[2] = {'?', '?'};
    EXPECT_EQ(tutti_store_get(group, "short", room, 2, &nbytes, 20000), TUTTI_INVALID_ARGUMENT);
    EXPECT_EQ(nbytes, 3u);
    EXPECT_EQ(room[0], '?');
    EXPECT_EQ(tutti_barrier(group), TUTTI_OK) << last_error();
    EXPECT_EQ(tutti_shutdown(group), TUTTI_OK);
  });
}

}  // namespace
}  // namespace tutti::test
