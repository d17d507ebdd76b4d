// What the C API does with wrong arguments: the result, and a text that names what was wrong; never a crash.
#include <sys/wait.h>
#include <tutti/tests/comm/c/c_world.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace tutti::test {
namespace {

/// A group of this process alone.
class CErrors : public ::testing::Test {
 protected:
  void SetUp() override {
    tutti_world_options place;
    ASSERT_EQ(tutti_world_options_init(&place, sizeof(place)), TUTTI_OK);
    place.launcher = "none";
    ASSERT_EQ(tutti_world_detect(&place, &world_), TUTTI_OK) << last_error();
    ASSERT_EQ(tutti_connect(world_, nullptr, &group_), TUTTI_OK) << last_error();
  }
  void TearDown() override {
    EXPECT_EQ(tutti_free(group_), TUTTI_OK);
    EXPECT_EQ(tutti_world_free(world_), TUTTI_OK);
  }

  /// `result` is InvalidArgument, and the text holds all of `parts`.
  static void expect_refused(tutti_result result, const std::vector<std::string>& parts) {
    EXPECT_EQ(result, TUTTI_INVALID_ARGUMENT);
    for (const std::string& part : parts) EXPECT_NE(last_error().find(part), std::string::npos) << last_error();
  }

  tutti_world* world_ = nullptr;
  tutti_group* group_ = nullptr;
  float value_ = 3;
};

TEST_F(CErrors, NullHandlesAndPointersAreNamed) {
  int number = 0;
  expect_refused(tutti_barrier(nullptr), {"tutti_barrier", "the group handle is NULL"});
  expect_refused(tutti_rank(group_, nullptr), {"tutti_rank", "rank is NULL"});
  expect_refused(tutti_work_wait(nullptr), {"the work handle is NULL"});
  expect_refused(tutti_all_reduce(group_, nullptr, 3, TUTTI_FLOAT32, TUTTI_SUM), {"data is a null pointer"});
  expect_refused(tutti_gather_v(group_, &value_, &value_, nullptr, TUTTI_FLOAT32, 0), {"counts is NULL"});
  expect_refused(tutti_all_reduce_async(group_, &value_, 1, TUTTI_FLOAT32, TUTTI_SUM, nullptr), {"work is NULL"});
  expect_refused(tutti_connect(nullptr, nullptr, nullptr), {"group is NULL"});
  expect_refused(tutti_world_describe(world_, nullptr), {"info is NULL"});
  expect_refused(tutti_store_set(group_, nullptr, "x", 1, 1000), {"key is NULL"});
  expect_refused(tutti_op_create("x", nullptr, nullptr, 1, &number), {"combine is NULL"});
  EXPECT_EQ(tutti_all_reduce(group_, nullptr, 0, TUTTI_FLOAT32, TUTTI_SUM), TUTTI_OK);
  for (const tutti_result freed :
       {tutti_free(nullptr), tutti_work_free(nullptr), tutti_world_free(nullptr), tutti_buffer_free(nullptr)})
    EXPECT_EQ(freed, TUTTI_OK);
}

TEST_F(CErrors, AHandleThatIsGoneOrOfAnotherKindIsKnown) {
  tutti_buffer* buffer = nullptr;
  ASSERT_EQ(tutti_allocate(group_, 8, &buffer), TUTTI_OK);
  expect_refused(tutti_barrier(reinterpret_cast<tutti_group*>(buffer)), {"is a buffer, not a group"});
  expect_refused(tutti_free(reinterpret_cast<tutti_group*>(world_)), {"is a world, not a group"});
  ASSERT_EQ(tutti_buffer_free(buffer), TUTTI_OK);
  expect_refused(tutti_buffer_free(buffer), {"a buffer, has been freed"});
  void* data = &value_;
  expect_refused(tutti_buffer_data(buffer, &data, nullptr), {"has been freed"});
  EXPECT_EQ(data, &value_);
  expect_refused(tutti_barrier(reinterpret_cast<tutti_group*>(&value_)), {"never was one"});

  tutti_group* other = nullptr;
  ASSERT_EQ(tutti_split(group_, 0, 0, &other), TUTTI_OK) << last_error();
  ASSERT_EQ(tutti_free(other), TUTTI_OK);
  tutti_group* next = nullptr;
  ASSERT_EQ(tutti_split(group_, 0, 0, &next), TUTTI_OK);
  EXPECT_NE(next, other);  // numbers are not used again
  expect_refused(tutti_barrier(other), {"a group, has been freed"});
  EXPECT_EQ(tutti_free(next), TUTTI_OK);
}

TEST_F(CErrors, TypesOperatorsAndCountsThatAreNoneAreNamed) {
  expect_refused(tutti_all_reduce(group_, &value_, 1, 11, TUTTI_SUM), {"dtype 11 is none", "TUTTI_BOOL (10)"});
  expect_refused(tutti_all_reduce(group_, &value_, 1, -1, TUTTI_SUM), {"dtype -1 is none"});
  expect_refused(tutti_all_reduce(group_, &value_, 1, TUTTI_FLOAT32, 8), {"operator 8 is none", "tutti_op_create"});
  expect_refused(tutti_all_reduce(group_, &value_, 1, TUTTI_FLOAT32, TUTTI_BAND), {"band", "float32"});
  expect_refused(tutti_all_reduce(group_, &value_, SIZE_MAX / 2, TUTTI_FLOAT64, TUTTI_SUM), {"more bytes"});
  const std::size_t huge = SIZE_MAX;
  expect_refused(tutti_all_gather_v(group_, &value_, &value_, &huge, TUTTI_FLOAT32), {"2^40"});
  expect_refused(tutti_broadcast(group_, &value_, 1, TUTTI_FLOAT32, 1), {"root 1 is no rank"});
  expect_refused(tutti_send(group_, &value_, 1, TUTTI_FLOAT32, 4, 0), {"no rank 4"});
  expect_refused(tutti_op_free(TUTTI_SUM), {"the library's own"});
  expect_refused(tutti_op_free(2000000), {"is none"});
  tutti_buffer* buffer = nullptr;
  expect_refused(tutti_allocate(group_, SIZE_MAX, &buffer), {"more than there is memory for"});
  std::size_t nbytes = 0;
  expect_refused(tutti_size_of(99, &nbytes), {"dtype 99"});
  const int ranks[] = {0, 0};
  tutti_group* sub = nullptr;
  expect_refused(tutti_subgroup(group_, ranks, 2, &sub), {"2 ranks in the list"});
  // None of this has failed the group.
  const char* failure = nullptr;
  EXPECT_EQ(tutti_group_error(group_, &failure), TUTTI_OK);
  EXPECT_STREQ(failure, "");
  EXPECT_EQ(tutti_all_reduce(group_, &value_, 1, TUTTI_FLOAT32, TUTTI_SUM), TUTTI_OK);
  EXPECT_EQ(value_, 3);
}

TEST_F(CErrors, MoreMemoryThanThereIsIsAnErrorOfTheSystem) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the process where memory runs out";
#endif
  tutti_buffer* buffer = nullptr;
  EXPECT_EQ(tutti_allocate(group_, std::size_t{1} << 62, &buffer), TUTTI_SYSTEM);
  expect_parts(last_error(), {"tutti_allocate: "});
  EXPECT_EQ(buffer, nullptr);
}

TEST_F(CErrors, StructsOfAnotherVersionAreUnderstoodOrRefused) {
  tutti_world_options untouched;
  std::memset(static_cast<void*>(&untouched), 0, sizeof(untouched));
  tutti_world* world = nullptr;
  expect_refused(tutti_world_detect(&untouched, &world), {"struct_size is 0", "_init"});
  expect_refused(tutti_world_options_init(&untouched, 8), {"sizeof(*options)"});

  // A newer program's struct: longer than ours. Its new field is 0 by _init, which this library cannot miss.
  struct Newer {
    tutti_group_options known;
    std::int64_t added;
  } newer;
  std::memset(static_cast<void*>(&newer), 0xff, sizeof(newer));
  ASSERT_EQ(tutti_group_options_init(&newer.known, sizeof(newer)), TUTTI_OK);
  EXPECT_EQ(newer.added, 0);
  EXPECT_EQ(newer.known.timeout_ms, 300000);
  tutti_group* group = nullptr;
  EXPECT_EQ(tutti_connect(world_, &newer.known, &group), TUTTI_OK) << last_error();
  EXPECT_EQ(tutti_free(group), TUTTI_OK);
  newer.added = 1;
  expect_refused(tutti_connect(world_, &newer.known, &group), {"is set", "load a newer library"});

  struct NewerInfo {
    tutti_group_info known;
    std::int64_t added;
  } info;
  info.known.struct_size = sizeof(info);
  info.added = 17;
  ASSERT_EQ(tutti_group_describe(group_, &info.known), TUTTI_OK);
  EXPECT_EQ(info.added, 17);  // not touched
  EXPECT_EQ(info.known.struct_size, sizeof(info));
  EXPECT_STREQ(info.known.transport, "inproc");
  info.known.struct_size = 3;
  expect_refused(tutti_group_describe(group_, &info.known), {"struct_size is 3"});
}

TEST_F(CErrors, OptionsOutOfRangeAreNamed) {
  tutti_group_options options;
  ASSERT_EQ(tutti_group_options_init(&options, sizeof(options)), TUTTI_OK);
  tutti_group* group = nullptr;
  options.timeout_ms = 0;
  expect_refused(tutti_connect(world_, &options, &group), {"timeout_ms is 0"});
  options.timeout_ms = INT64_MAX;  // as good as for ever: ten years
  options.segment_bytes = 3;
  expect_refused(tutti_connect(world_, &options, &group), {"segment_bytes is 3"});
  options.segment_bytes = 64;
  options.transport = "pigeon";
  expect_refused(tutti_connect(world_, &options, &group), {"pigeon"});
  options.transport = nullptr;
  ASSERT_EQ(tutti_connect(world_, &options, &group), TUTTI_OK) << last_error();
  EXPECT_EQ(tutti_barrier(group), TUTTI_OK);
  EXPECT_EQ(tutti_free(group), TUTTI_OK);
}

TEST_F(CErrors, TheLastTextIsEachThreadsOwnAndStays) {
  expect_refused(tutti_barrier(nullptr), {"tutti_barrier"});
  std::thread([] {
    EXPECT_EQ(last_error(), "");
    EXPECT_EQ(tutti_shutdown(nullptr), TUTTI_INVALID_ARGUMENT);
  }).join();
  EXPECT_EQ(tutti_barrier(group_), TUTTI_OK);  // a success leaves the text as it was
  expect_parts(last_error(), {"tutti_barrier: the group handle is NULL"});
}

int call_back_in(void*, const void*, size_t, tutti_dtype, void* context) {
  auto* group = *static_cast<tutti_group**>(context);
  EXPECT_EQ(tutti_free(group), TUTTI_INVALID_ARGUMENT);
  EXPECT_EQ(tutti_barrier(group), TUTTI_INVALID_ARGUMENT);
  expect_parts(last_error(), {"within the operation that runs it"});
  return 0;
}

TEST(COperators, CannotUseTheGroupThatRunsThem) {
  run_c_ranks(2, [](tutti_group* group, int) {
    tutti_op op = 0;
    ASSERT_EQ(tutti_op_create("calls back", call_back_in, &group, 1, &op), TUTTI_OK);
    float value = 1;
    EXPECT_EQ(tutti_all_reduce(group, &value, 1, TUTTI_FLOAT32, op), TUTTI_OK) << last_error();
    EXPECT_EQ(tutti_op_free(op), TUTTI_OK);
    EXPECT_EQ(tutti_shutdown(group), TUTTI_OK) << last_error();
    EXPECT_EQ(tutti_barrier(group), TUTTI_ABORTED);
  });
}

TEST_F(CErrors, AForkedChildIsToldSo) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = tutti_barrier(group_) == TUTTI_INVALID_ARGUMENT;
    const bool named = last_error().find("forked") != std::string::npos;
    ::_exit(refused && named && tutti_free(group_) == TUTTI_OK ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tutti::test
