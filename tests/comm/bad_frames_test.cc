// Frames that no rank of this version sends, from a peer that has proved the secret: an error that names the peer, and
// not a byte outside the buffers (the sanitizers watch).
#include <gtest/gtest.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/tests/support/inproc_transport.h>
#include <tutti/tests/support/watchdog.h>

#include <algorithm>
#include <functional>
#include <list>

#include "store_test_support.h"

namespace tutti::comm {
namespace {

using std::chrono::seconds;

/// Rank 0 is a group; rank 1 is this test, which posts what it likes.
class BadFrames : public testing::Test {
 protected:
  BadFrames() {
    auto transports = test::make_inproc_transports(2);
    peer_ = std::move(transports[1]);
    group_ = std::make_unique<ProcessGroup>(std::make_shared<HashStore>(), std::move(transports[0]),
                                            ProcessGroupOptions{.timeout = seconds(20)});
  }

  /// A message of four floats with tag 7, as it should be.
  FrameHeader message(FrameKind kind) const {
    return {.kind = kind,
            .fingerprint =
                {.group = identity_hash("world"), .count = 4, .root = 7, .op = OpKind::Send, .dtype = DType::Float32},
            .nbytes = std::uint64_t{kind == FrameKind::Eager ? 16u : 0u},
            .id = 1};
  }

  void post(Link& link, const FrameHeader& header) {
    Outgoing& frame = posted_.emplace_back();
    frame.header = header;
    frame.payload = payload_.data();
    link.post(frame);
  }

  void expect_error(ErrorCode code, const std::string& part, const std::function<void()>& action) {
    test::expect_error(code, {part, "rank 1 ("}, action);
  }
  void expect_recv_error(ErrorCode code, const std::string& part) {
    expect_error(code, part, [&] { group_->recv(std::span<float>(four_), 1, 7); });
  }

  test::Watchdog watchdog_;
  std::vector<std::byte> payload_ = std::vector<std::byte>(1 << 20);
  std::vector<float> four_ = std::vector<float>(4);
  std::list<Outgoing> posted_;
  std::unique_ptr<Transport> peer_;
  std::unique_ptr<ProcessGroup> group_;
};

TEST_F(BadFrames, AGoodMessageIsTaken) {
  post(peer_->messages(0), message(FrameKind::Eager));
  EXPECT_EQ(group_->recv(std::span<float>(four_), 1, 7), 1);
  group_->abort("rank 1 says no goodbye");
}

/// One message that its receiver asks for.
struct BadMessage {
  const char* name;
  FrameKind kind;
  std::uint64_t count, nbytes;
  const char* said;
};

class BadMessages : public BadFrames, public testing::WithParamInterface<BadMessage> {};

TEST_P(BadMessages, IsRefused) {
  FrameHeader header = message(GetParam().kind);
  header.fingerprint.count = GetParam().count;
  header.nbytes = GetParam().nbytes;
  post(peer_->messages(0), header);
  std::vector<float> data(std::min(header.fingerprint.count, std::uint64_t{1 << 18}));
  expect_error(ErrorCode::Protocol, GetParam().said, [&] { group_->recv(std::span<float>(data), 1, 7); });
}

constexpr std::uint64_t kOverflowing = (std::uint64_t{1} << 62) + 4;  // times 4 bytes is 16 again
INSTANTIATE_TEST_SUITE_P(
    All, BadMessages,
    testing::Values(BadMessage{"AnEagerPayloadLongerThanItsCountSays", FrameKind::Eager, 4, 4096, "4096 bytes"},
                    BadMessage{"AnEagerPayloadShorterThanItsCountSays", FrameKind::Eager, 4, 12, "12 bytes"},
                    BadMessage{"ACountWhoseBytesOverflow", FrameKind::Eager, kOverflowing, 16, "16 bytes"},
                    BadMessage{"AnEagerPayloadOverTheLimit", FrameKind::Eager, 1 << 18, 1 << 20, "1048576 bytes"},
                    BadMessage{"AnAnnouncementWithAPayload", FrameKind::RequestToSend, 4, 16, "16 bytes"},
                    BadMessage{"APayloadThatNobodyHasAskedFor", FrameKind::Rendezvous, 4, 16, "nobody has asked for"}),
    [](const auto& suite) { return suite.param.name; });

TEST_F(BadFrames, AnEagerPayloadOfTheWrongLengthThatNobodyAskedForYet) {
  FrameHeader header = message(FrameKind::Eager);
  header.nbytes = 4096;
  post(peer_->messages(0), header);
  // Another tag: the message is looked at before anybody asks for it.
  expect_error(ErrorCode::Protocol, "4096 bytes", [&] { group_->recv(std::span<float>(four_), 1, 8); });
}

TEST_F(BadFrames, APayloadOfAnotherLengthThanAnnounced) {
  post(peer_->messages(0), message(FrameKind::RequestToSend));
  FrameHeader header = message(FrameKind::Rendezvous);
  header.nbytes = 4096;
  post(peer_->messages(0), header);
  expect_recv_error(ErrorCode::Protocol, "nobody has asked for");
}

TEST_F(BadFrames, AnAnnouncementThatComesTwice) {
  post(peer_->messages(0), message(FrameKind::RequestToSend));
  post(peer_->messages(0), message(FrameKind::RequestToSend));
  Work first = group_->irecv(buffer(std::span<float>(four_)), 1, 7);
  std::vector<float> more(4);
  expect_error(ErrorCode::Protocol, "announced message 1 a second time",
               [&] { group_->recv(std::span<float>(more), 1, 7); });
  EXPECT_THROW(first.wait(), Error);
}

TEST_F(BadFrames, AnAnswerToNoQuestion) {
  FrameHeader header = message(FrameKind::ClearToSend);
  header.id = 99;
  post(peer_->answers(0), header);
  std::vector<float> data(100'000);
  expect_error(ErrorCode::Protocol, "unexpected answer", [&] { group_->send(std::span<float>(data), 1, 7); });
}

TEST_F(BadFrames, ACollectiveFrameAmongMessages) {
  post(peer_->messages(0), {.fingerprint = {.group = identity_hash("world"), .seq = 1, .op = OpKind::Barrier}});
  expect_recv_error(ErrorCode::Protocol, "unexpected frame");
}

/// One frame that comes in place of a barrier's first.
struct BadCollective {
  const char* name;
  ErrorCode code;
  std::uint64_t group, nbytes, id;
  const char* said;
};

class BadCollectives : public BadFrames, public testing::WithParamInterface<BadCollective> {};

TEST_P(BadCollectives, IsRefused) {
  FrameHeader header{
      .fingerprint = {.group = GetParam().group, .seq = 1, .op = OpKind::Barrier, .dtype = DType::Float32},
      .nbytes = GetParam().nbytes,
      .id = GetParam().id};
  post(peer_->collective(0), header);
  expect_error(GetParam().code, GetParam().said, [&] { group_->barrier(); });
}

INSTANTIATE_TEST_SUITE_P(All, BadCollectives,
                         testing::Values(BadCollective{"OfAnotherGroup", ErrorCode::Protocol, 1, 0, 0,
                                                       "belongs to no collective of this group"},
                                         BadCollective{"OfAnotherLength", ErrorCode::Mismatch, identity_hash("world"),
                                                       4096, 0, "sent message 0 of 4096 bytes"},
                                         BadCollective{"OutOfOrder", ErrorCode::Mismatch, identity_hash("world"), 0, 5,
                                                       "sent message 5"}),
                         [](const auto& suite) { return suite.param.name; });

TEST_F(BadFrames, AMessageAmongCollectives) {
  post(peer_->collective(0), message(FrameKind::Eager));
  expect_error(ErrorCode::Protocol, "belongs to no collective", [&] { group_->barrier(); });
}

}  // namespace
}  // namespace tutti::comm
