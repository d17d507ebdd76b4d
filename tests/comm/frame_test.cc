// FrameHeader on the wire: pinned bytes, the way there and back, and what is refused. Mutated headers: tests/fuzz.
#include <gtest/gtest.h>
#include <tutti/comm/base/counts.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/wire/frame.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

/// The example of wire_format.md.
FrameHeader example() {
  return {.kind = FrameKind::Collective,
          .fingerprint = {.group = 0x1122334455667788,
                          .seq = 17,
                          .count = 1048576,
                          .root = -2,
                          .op = OpKind::AllReduce,
                          .dtype = DType::Int64,
                          .reduce_op = ReduceOp::Max},
          .nbytes = 65536,
          .id = 3,
          .bulk_tag = 0x0102030405060708};
}

constexpr char kExampleHex[] =
    "75 54 01 01 02 03 04 00 "
    "fe ff ff ff 00 00 00 00 "
    "88 77 66 55 44 33 22 11 "
    "11 00 00 00 00 00 00 00 "
    "00 00 10 00 00 00 00 00 "
    "00 00 01 00 00 00 00 00 "
    "03 00 00 00 00 00 00 00 "
    "08 07 06 05 04 03 02 01";

std::string hex_of(const FrameBytes& bytes) {
  const std::string quoted = quote_bytes(bytes, bytes.size());
  return quoted.substr(0, quoted.find(" (\""));
}

void expect_equal(const FrameHeader& a, const FrameHeader& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.fingerprint, b.fingerprint);
  EXPECT_EQ(a.nbytes, b.nbytes);
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.bulk_tag, b.bulk_tag);
}

std::string refusal_of(const FrameBytes& bytes) {
  return test::text_of(ErrorCode::Protocol, [&] { decode_frame(bytes); });
}

TEST(Frame, BytesOnTheWireArePinned) { EXPECT_EQ(hex_of(encode(example())), kExampleHex); }

TEST(Frame, EveryKindOperationTypeAndOperatorMakesTheRoundTrip) {
  FrameHeader header = example();
  for (const int kind : {1, 2, 3, 4, 5})
    for (int op = 0; op <= static_cast<int>(kLastOpKind); ++op)
      for (int dtype = 0; dtype <= static_cast<int>(kLastDType); ++dtype)
        for (int reduce_op = 0; reduce_op <= static_cast<int>(kLastReduceOp); ++reduce_op) {
          header.kind = static_cast<FrameKind>(kind);
          header.fingerprint.op = static_cast<OpKind>(op);
          header.fingerprint.dtype = static_cast<DType>(dtype);
          header.fingerprint.reduce_op = static_cast<ReduceOp>(reduce_op);
          expect_equal(decode_frame(encode(header)), header);
        }
}

TEST(Frame, TheWishToBeAcknowledgedIsABit) {
  FrameHeader header = example();
  header.acknowledge = true;
  FrameBytes bytes = encode(example());
  bytes[7] = std::byte{1};
  EXPECT_EQ(encode(header), bytes);
  EXPECT_TRUE(decode_frame(bytes).acknowledge);
  EXPECT_FALSE(decode_frame(encode(example())).acknowledge);
}

template <typename Enum>
void expect_numbered_from_zero(std::initializer_list<Enum> values, Enum last) {
  std::size_t number = 0;
  for (const Enum value : values) EXPECT_EQ(static_cast<std::size_t>(value), number++);
  EXPECT_EQ(static_cast<std::size_t>(last) + 1, values.size());
}

TEST(Frame, NumbersOfTypesOperatorsAndOperationsArePinned) {
  expect_numbered_from_zero({DType::Float32, DType::Float64, DType::Int32, DType::Int64, DType::UInt8, DType::Float16,
                             DType::BFloat16, DType::Int8, DType::UInt16, DType::UInt64, DType::Bool},
                            kLastDType);
  expect_numbered_from_zero({ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max, ReduceOp::BAnd,
                             ReduceOp::BOr, ReduceOp::BXor, ReduceOp::User},
                            kLastReduceOp);
  expect_numbered_from_zero(
      {OpKind::Broadcast, OpKind::Reduce, OpKind::AllReduce, OpKind::Gather, OpKind::AllGather, OpKind::Scatter,
       OpKind::Barrier, OpKind::Shutdown, OpKind::Send, OpKind::Recv, OpKind::ReduceScatter, OpKind::AllToAll,
       OpKind::GatherV, OpKind::ScatterV, OpKind::AllGatherV, OpKind::Split, OpKind::ReduceScatterV, OpKind::AllToAllV},
      kLastOpKind);
}

TEST(Frame, CountsOfVFormsShowTheirTotalAndChecksum) {
  const std::vector<std::size_t> counts = {3, 0, 14}, swapped = {0, 3, 14};
  EXPECT_EQ(total_of(summary_of(counts)), 17u);
  EXPECT_EQ(total_of(summary_of(swapped)), 17u);
  EXPECT_NE(checksum_of(summary_of(counts)), checksum_of(summary_of(swapped)));
  const std::vector<std::size_t> largest = {kMaxTotalCount - 1};
  EXPECT_EQ(total_of(summary_of(largest)), kMaxTotalCount - 1);
  const Fingerprint call{.seq = 4, .count = summary_of(counts), .root = 2, .op = OpKind::GatherV, .dtype = DType::Bool};
  EXPECT_EQ(call.to_string(), "gather_v seq 4 (bool x 17, checksum of counts " +
                                  std::to_string(checksum_of(summary_of(counts))) + ", root 2)");
}

TEST(Frame, ExtremeNumbersMakeTheRoundTrip) {
  FrameHeader header = example();
  header.fingerprint.group = header.fingerprint.seq = header.fingerprint.count = header.id = ~std::uint64_t{0};
  header.fingerprint.root = std::numeric_limits<std::int32_t>::min();
  header.nbytes = kMaxFrameBytes;
  expect_equal(decode_frame(encode(header)), header);
}

struct BadByte {
  const char* field;  // must stand in the text
  std::size_t offset;
  int value;
};

TEST(Frame, EveryFieldOutOfRangeIsNamedAndTheBytesAreQuoted) {
  const std::vector<BadByte> bad_bytes = {{"magic", 0, 0x74},      {"magic", 1, 0x55},        {"version 0", 2, 0},
                                          {"version 2", 2, 2},     {"kind 0", 3, 0},          {"kind 7", 3, 7},
                                          {"operation 18", 4, 18}, {"operation 255", 4, 255}, {"dtype 11", 5, 11},
                                          {"operator 9", 6, 9},    {"reserved", 7, 2},        {"reserved", 12, 1},
                                          {"reserved", 15, 128},   {"payload of", 45, 2},     {"payload of", 47, 0x80}};
  for (const BadByte& bad : bad_bytes) {
    SCOPED_TRACE(std::string(bad.field) + " at " + std::to_string(bad.offset));
    FrameBytes bytes = encode(example());
    bytes[bad.offset] = static_cast<std::byte>(bad.value);
    const std::string text = refusal_of(bytes);
    test::expect_parts(text, {bad.field, hex_of(bytes)});
  }
}

TEST(Frame, OneByteMoreThanTheLargestPayloadIsRefused) {
  FrameHeader header = example();
  header.nbytes = kMaxFrameBytes + 1;
  const FrameBytes bytes = encode(header);
  test::expect_parts(refusal_of(bytes), {"payload of 1099511627777 bytes"});
}

}  // namespace
}  // namespace tutti::comm
