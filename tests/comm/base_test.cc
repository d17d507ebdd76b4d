#include <gtest/gtest.h>
#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/printable_utf8.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/base/types.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

TEST(PrintableUtf8, KeepsTextAndNothingThatATerminalObeys) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"Fl\u00fcsse \u20ac \U0001F30D", "Fl\u00fcsse \u20ac \U0001F30D"},
      {"a\xff"
       "b\n\x1b[1mc\x7f\r",
       "a?b\n?[1mc??"},
      {"\u009b2J|\u009f|\u00a0|\x9b", "??2J|??|\u00a0|?"},
      {"\xc0\x80|\xed\xa0\x80|\xf4\x90\x80\x80|\xc3", "??|???|????|?"},
  };
  for (const auto& [text, shown] : table) EXPECT_EQ(printable_utf8(text, "\n"), shown);
  EXPECT_EQ(printable_utf8("a\nb"), "a?b");
}

TEST(Error, CarriesCodeAndErrnoWords) {
  EXPECT_EQ(test::text_of(ErrorCode::System, [] { throw_errno("open data/x", ENOENT); }),
            "open data/x: No such file or directory (errno 2)");
}

TEST(Deadline, RemainingIsNeverNegativeAndRoundsUp) {
  EXPECT_EQ(Deadline::after(std::chrono::milliseconds(-5)).remaining().count(), 0);
  EXPECT_TRUE(Deadline::after(std::chrono::milliseconds(-5)).expired());
  const Deadline soon(Deadline::Clock::now() + std::chrono::hours(1) + std::chrono::microseconds(1));
  EXPECT_GE(soon.remaining().count(), 3'599'000);
}

TEST(Processors, TheLastCacheIsOneThatProcessorsHave) {
  EXPECT_GE(last_cache_bytes(), 128u * 1024);
  EXPECT_LE(last_cache_bytes(), std::size_t{16} << 30);
}

TEST(Types, BufferOfSpanKnowsItsTypeAndSize) {
  double values[3] = {1, 2, 3};
  const Buffer b = buffer(std::span<double>(values));
  EXPECT_EQ(b.dtype, DType::Float64);
  EXPECT_EQ(b.nbytes(), 24u);
  EXPECT_EQ(name(b.dtype), "float64");
}

template <typename T>
void expect_type(DType dtype, std::string_view expected_name) {
  EXPECT_EQ(DTypeOf<T>::value, dtype);
  EXPECT_EQ(size_of(dtype), sizeof(T)) << expected_name;
  EXPECT_EQ(name(dtype), expected_name);
}

TEST(Types, EveryCppTypeHasItsSizeAndName) {
  expect_type<float>(DType::Float32, "float32");
  expect_type<double>(DType::Float64, "float64");
  expect_type<Half>(DType::Float16, "float16");
  expect_type<BFloat16>(DType::BFloat16, "bfloat16");
  expect_type<std::int8_t>(DType::Int8, "int8");
  expect_type<std::uint8_t>(DType::UInt8, "uint8");
  expect_type<std::uint16_t>(DType::UInt16, "uint16");
  expect_type<std::int32_t>(DType::Int32, "int32");
  expect_type<std::int64_t>(DType::Int64, "int64");
  expect_type<std::uint64_t>(DType::UInt64, "uint64");
  expect_type<bool>(DType::Bool, "bool");
}

TEST(Types, RefusalsNameOperatorAndType) {
  EXPECT_EQ(refusal(ReduceOp::BXor, DType::BFloat16), "bxor of bfloat16 is not defined; it needs integers or bool");
  EXPECT_EQ(refusal(ReduceOp::BAnd, DType::Float64), "band of float64 is not defined; it needs integers or bool");
  EXPECT_EQ(refusal(ReduceOp::Avg, DType::UInt64),
            "avg of uint64 has no exact result; use sum and divide as suits you");
  EXPECT_EQ(refusal(ReduceOp::Avg, DType::Bool), "avg of bool is not defined; use sum (or) or prod (and)");
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max})
      EXPECT_EQ(refusal(op, dtype), "");
  }
  for (const DType dtype : {DType::Int8, DType::UInt16, DType::UInt64, DType::Bool}) {
    for (const ReduceOp op :
         {ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::BAnd, ReduceOp::BOr, ReduceOp::BXor})
      EXPECT_EQ(refusal(op, dtype), "");
  }
}

}  // namespace
}  // namespace tutti::comm
