#include <gtest/gtest.h>

#include <cerrno>

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/types.h>

namespace tutti::comm {
namespace {

TEST(Error, CarriesCodeAndErrnoWords) {
  try {
    throw_errno("open data/x", ENOENT);
    FAIL() << "throw_errno returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::System);
    EXPECT_STREQ(error.what(), "open data/x: No such file or directory (errno 2)");
  }
}

TEST(Deadline, RemainingIsNeverNegativeAndRoundsUp) {
  EXPECT_EQ(Deadline::after(std::chrono::milliseconds(-5)).remaining().count(), 0);
  EXPECT_TRUE(Deadline::after(std::chrono::milliseconds(-5)).expired());
  const Deadline soon(Deadline::Clock::now() + std::chrono::hours(1) + std::chrono::microseconds(1));
  EXPECT_GE(soon.remaining().count(), 3'599'000);
}

TEST(Types, BufferOfSpanKnowsItsTypeAndSize) {
  double values[3] = {1, 2, 3};
  const Buffer b = buffer(std::span<double>(values));
  EXPECT_EQ(b.dtype, DType::Float64);
  EXPECT_EQ(b.nbytes(), 24u);
  EXPECT_EQ(name(b.dtype), "float64");
}

}  // namespace
}  // namespace tutti::comm
