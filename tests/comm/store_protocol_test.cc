// The store's messages and what the server's service does with them. Mutated requests: tests/fuzz.
#include <gtest/gtest.h>
#include <tutti/comm/store/store_protocol.h>
#include <tutti/comm/store/store_service.h>

#include <algorithm>
#include <cstring>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using namespace test;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string encoded(StoreOp op, std::uint32_t id, const StoreBody& body) {
  std::string message;
  append_store_message(message, static_cast<std::uint8_t>(op), id, body);
  return message;
}

StoreHeader header_of(std::string_view message) {
  return decode_store_header(bytes_of(message).first<kStoreHeaderBytes>());
}

std::string protocol_error(std::string_view body) {
  return text_of(ErrorCode::Protocol, [&] { decode_store_body(bytes_of(body)); });
}

TEST(StoreProtocol, MessageHasTheDocumentedBytes) {
  // The example of wire_format.md, section "Store protocol".
  const unsigned char golden[] = {0x19, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00,
                                  0x00, 0x00, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00, 0x00, 0x00,
                                  0x09, 0x00, 0x00, 0x00, 0x61, 0x72, 0x72, 0x69, 0x76, 0x65, 0x64, 0x2f, 0x30};
  const std::string message = encoded(StoreOp::Add, 7, {-2, {"arrived/0"}});
  ASSERT_EQ(message.size(), sizeof golden);
  EXPECT_EQ(std::memcmp(message.data(), golden, sizeof golden), 0);
}

TEST(StoreProtocol, DecodingUndoesEncoding) {
  const std::string binary("\0\n\xff", 3);
  const std::string message = encoded(StoreOp::Wait, 0xfffffffe, {-5, {"a", "", binary}});
  const StoreHeader header = header_of(message);
  EXPECT_EQ(header.code, static_cast<std::uint8_t>(StoreOp::Wait));
  EXPECT_EQ(header.id, 0xfffffffe);
  EXPECT_EQ(header.body_bytes, message.size() - kStoreHeaderBytes);
  const StoreBody body = decode_store_body(bytes_of(message).subspan(kStoreHeaderBytes));
  EXPECT_EQ(body.number, -5);
  EXPECT_EQ(body.strings, (std::vector<std::string_view>{"a", "", binary}));
}

TEST(StoreProtocol, MalformedBodiesAreNamed) {
  const std::string body = encoded(StoreOp::Set, 1, {0, {"key", "value"}}).substr(kStoreHeaderBytes);
  expect_parts(protocol_error(""), {"shorter than its fixed part"});
  expect_parts(protocol_error(body.substr(0, 11)), {"shorter than its fixed part"});
  expect_parts(protocol_error(body.substr(0, body.size() - 1)), {"announces 5 bytes; 4 are left"});
  expect_parts(protocol_error(body.substr(0, 12 + 4 + 3 + 2)), {"ends before string 1"});
  expect_parts(protocol_error(body + "x"), {"1 bytes are left over"});
  std::string many = body;
  many[8] = many[9] = many[10] = many[11] = '\xff';
  expect_parts(protocol_error(many), {"announces 4294967295 strings"});
  std::string longer = body;
  longer[12] = longer[13] = longer[14] = longer[15] = '\xff';
  expect_parts(protocol_error(longer), {"announces 4294967295 bytes"});
}

TEST(StoreProtocol, OversizedMessageIsRefusedBeforeItIsBuilt) {
  const std::string value(64 * 1024 * 1024, 'v');
  std::string out = "kept";
  expect_error(ErrorCode::InvalidArgument, {"split the call"}, [&] {
    append_store_message(out, 1, 1, {0, {"a", value, "b", value, "c", value, "d", value}});
  });
  EXPECT_EQ(out, "kept");
}

/// A service with one client, whose replies are kept.
class StoreServiceTest : public testing::Test {
 protected:
  StoreServiceTest()
      : service_([this](std::uint64_t, const StoreHeader& request, StoreStatus status, const StoreBody& body) {
          replies_.push_back(encoded_reply(request, status, body));
        }) {
    service_.client_joined(1, {}, "test");
  }

  void request(StoreOp op, const StoreBody& body, std::uint64_t client = 1) {
    const std::string message = encoded(op, ++id_, body);
    service_.handle(client, header_of(message), bytes_of(message).subspan(kStoreHeaderBytes));
  }

  StoreStatus last_status() const { return static_cast<StoreStatus>(header_of(replies_.back()).code); }
  StoreBody last_body() const { return decode_store_body(bytes_of(replies_.back()).subspan(kStoreHeaderBytes)); }

  std::vector<std::string> replies_;
  std::uint32_t id_ = 0;
  StoreService service_;
};

TEST_F(StoreServiceTest, WaitIsAnEntryThatASetEnds) {
  request(StoreOp::Wait, {0, {"a", "b"}});
  EXPECT_EQ(service_.waiter_count(), 1u);
  request(StoreOp::Set, {0, {"b", "1"}});
  EXPECT_EQ(replies_.size(), 1u) << "only the set is answered";
  request(StoreOp::Set, {0, {"a", "1"}});
  EXPECT_EQ(replies_.size(), 3u);
  EXPECT_EQ(service_.waiter_count(), 0u);
}

TEST_F(StoreServiceTest, KeyDeletedMeanwhileIsWaitedForAgain) {
  request(StoreOp::Get, {0, {"a", "b"}});
  request(StoreOp::Set, {0, {"a", "1"}});
  request(StoreOp::Delete, {0, {"a"}});
  request(StoreOp::Set, {0, {"b", "2"}});
  EXPECT_EQ(service_.waiter_count(), 1u);
  request(StoreOp::Set, {0, {"a", "3"}});
  EXPECT_EQ(service_.waiter_count(), 0u);
  const auto by_id = [](const std::string& reply) { return header_of(reply).id == 1; };
  const auto answer = std::find_if(replies_.begin(), replies_.end(), by_id);
  ASSERT_NE(answer, replies_.end());
  EXPECT_EQ(decode_store_body(bytes_of(*answer).subspan(kStoreHeaderBytes)).strings,
            (std::vector<std::string_view>{"3", "2"}));
}

TEST_F(StoreServiceTest, WaitThatIsEndedIsAnsweredWithWhatIsMissingAndLeavesNothingBehind) {
  service_.client_joined(2, {}, "other");
  request(StoreOp::Wait, {0, {"a", "b"}});
  request(StoreOp::Wait, {0, {"c"}}, 2);
  request(StoreOp::Set, {0, {"a", "1"}});
  request(StoreOp::EndWaits, {});
  EXPECT_EQ(last_status(), StoreStatus::Timeout);
  EXPECT_EQ(last_body().strings, (std::vector<std::string_view>{"b"}));
  EXPECT_EQ(last_body().number, 1);
  EXPECT_EQ(service_.waiter_count(), 1u) << "the other client's stays";
  const std::size_t answered = replies_.size();
  request(StoreOp::EndWaits, {});
  EXPECT_EQ(replies_.size(), answered) << "there is nothing to end";
  request(StoreOp::Set, {0, {"b", "1"}});
  EXPECT_EQ(replies_.size(), answered + 1) << "the wait was answered twice";
}

TEST_F(StoreServiceTest, ClientThatLeavesTakesItsWaitsAlong) {
  service_.client_joined(2, {}, "other");
  request(StoreOp::Wait, {0, {"a"}}, 2);
  request(StoreOp::Wait, {0, {"a"}});
  service_.client_left(2);
  EXPECT_EQ(service_.waiter_count(), 1u);
  request(StoreOp::Set, {0, {"a", "1"}});
  EXPECT_EQ(replies_.size(), 2u);
}

TEST_F(StoreServiceTest, AClientHasOneWaitAtATime) {
  request(StoreOp::Wait, {0, {"a"}});
  EXPECT_TRUE(replies_.empty());
  request(StoreOp::Get, {0, {"b"}});
  EXPECT_EQ(last_status(), StoreStatus::InvalidArgument);
  EXPECT_EQ(last_body().strings.at(0), "this connection waits for a request already (number 1); end that wait first");
  request(StoreOp::Set, {0, {"a", "1"}});
  EXPECT_EQ(replies_.size(), 3u) << "the wait that was there before goes on";
}

TEST_F(StoreServiceTest, MultiSetWithOneBadKeySetsNone) {
  const std::string long_key(9000, 'k');
  request(StoreOp::Set, {0, {"good", "1", long_key, "2"}});
  EXPECT_EQ(last_status(), StoreStatus::InvalidArgument);
  request(StoreOp::Check, {0, {"good"}});
  EXPECT_EQ(last_body().number, 0);
}

TEST_F(StoreServiceTest, NonsenseIsAnsweredWithAnErrorReply) {
  request(static_cast<StoreOp>(99), {});
  EXPECT_EQ(last_status(), StoreStatus::Protocol);
  expect_parts(std::string(last_body().strings.at(0)), {"no store operation 99"});
  request(StoreOp::Set, {0, {"key without value"}});
  EXPECT_EQ(last_status(), StoreStatus::Protocol);
  request(StoreOp::Add, {1, {}});
  EXPECT_EQ(last_status(), StoreStatus::Protocol);
  request(StoreOp::CompareSet, {0, {"a", "b"}});
  EXPECT_EQ(last_status(), StoreStatus::Protocol);
}

}  // namespace
}  // namespace tutti::comm
