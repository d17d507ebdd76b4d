// Who opens the connection of messages, and that of their answers: whoever sends first, and of two that do so at once
// the higher rank. Both ranks are driven by the test's thread, so that each race is lost and won on purpose.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <tutti/comm/base/error.h>
#include <tutti/tests/support/watchdog.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tcp_test.h"

namespace tutti::comm {
namespace {

using Ids = std::vector<std::uint64_t>;

/// Two ranks, and on each its link of one lane to the other one.
class Pair {
 public:
  Pair(bool answers, bool encrypt)
      : answers_(answers),
        ranks_{std::make_unique<TcpTransport>(test::tcp_options(0, 2, encrypt)),
               std::make_unique<TcpTransport>(test::tcp_options(1, 2, encrypt))} {
    const std::string pid = std::to_string(::getpid());
    for (const auto& rank : ranks_) rank->set_peers({{endpoint(0), "host", pid}, {endpoint(1), "host", pid}});
  }

  std::array<Ids, 2> came;  // by rank

  void post(std::size_t rank, std::uint64_t id) {
    Outgoing& frame = posted_.emplace_back();
    frame.header.kind = FrameKind::Eager;
    frame.header.id = id;
    link(rank).post(frame);
  }

  /// One look of a rank at what there is to do.
  void look(std::size_t rank) {
    ranks_[rank]->service();
    link(rank).flush();
    const FrameHeader* const header = link(rank).peek();
    if (!header) return;
    came[rank].push_back(header->id);
    link(rank).read(nullptr, 0);
  }

  void look_until(const std::function<bool()>& done) {
    for (const Deadline deadline = test::soon(); !done() && !deadline.expired();)
      for (const std::size_t rank : {0, 1}) look(rank);
    ASSERT_TRUE(done());
  }

  /// The ports at a rank's own end of its connection and at the other end.
  std::array<int, 2> ports(std::size_t rank) {
    const int fd = link(rank).interest().fd;
    sockaddr_in here{}, there{};
    socklen_t size = sizeof here;
    EXPECT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size), 0);
    EXPECT_EQ(::getpeername(fd, reinterpret_cast<sockaddr*>(&there), &size), 0);
    return {ntohs(here.sin_port), ntohs(there.sin_port)};
  }
  bool has_connection(std::size_t rank) { return link(rank).interest().fd >= 0; }

  /// Which rank has opened the one connection that both use; -1: they use two.
  int opener() {
    const std::array<int, 2> at_zero = ports(0), at_one = ports(1);
    if (at_zero[0] != at_one[1] || at_zero[1] != at_one[0]) return -1;
    return endpoint(1).ends_with(":" + std::to_string(at_zero[1])) ? 0 : 1;
  }

 private:
  TcpLink& link(std::size_t rank) {
    const int peer = 1 - static_cast<int>(rank);
    return static_cast<TcpLink&>(answers_ ? ranks_[rank]->answers(peer) : ranks_[rank]->messages(peer));
  }
  std::string endpoint(std::size_t rank) const { return ranks_[rank]->endpoint(); }

  const bool answers_;
  const std::array<std::unique_ptr<TcpTransport>, 2> ranks_;
  std::list<Outgoing> posted_;
};

/// Of messages or answers, encrypted or not.
class Opening : public testing::TestWithParam<std::tuple<bool, bool>> {
 protected:
  Pair make() const { return Pair(std::get<0>(GetParam()), std::get<1>(GetParam())); }

  tutti::test::Watchdog watchdog_{std::chrono::seconds(60)};
  test::CapturedLog log_;
};

TEST_P(Opening, IsDoneByWhoeverSendsFirst) {
  for (const std::size_t first : {0, 1}) {
    Pair pair = make();
    pair.post(first, 1);
    pair.look_until([&] { return pair.came[1 - first].size() == 1; });
    pair.post(1 - first, 2);
    pair.look_until([&] { return pair.came[first] == Ids{2}; });
    EXPECT_EQ(pair.opener(), static_cast<int>(first));
  }
}

TEST_P(Opening, IsNotDoneByWhoeverOnlyReceives) {
  Pair pair = make();
  for (int looks = 0; looks < 100; ++looks) pair.look(looks % 2);
  EXPECT_FALSE(pair.has_connection(0));
  EXPECT_FALSE(pair.has_connection(1));
}

TEST_P(Opening, IsDoneByTheHigherRankIfBothSendAtOnce) {
  Pair pair = make();
  pair.post(0, 1);
  pair.post(1, 2);
  pair.look_until([&] { return pair.came[0] == Ids{2} && pair.came[1] == Ids{1}; });
  EXPECT_EQ(pair.opener(), 1);
  EXPECT_EQ(log_.lines(), "") << "the connection that is given up is worth no warning";
}

/// Both begin at any time, and look any number of times before the other one does.
TEST_P(Opening, EndsWithOneConnectionWhoeverIsQuicker) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Pair pair = make();
    std::array<std::uint64_t, 2> sent{};
    while (sent[0] < 3 || sent[1] < 3) {
      const std::size_t rank = random() % 2;
      if (sent[rank] < 3 && random() % 4 == 0) pair.post(rank, ++sent[rank]);
      for (auto looks = random() % 12; looks > 0; --looks) pair.look(rank);
    }
    pair.look_until([&] { return pair.came[0].size() == 3 && pair.came[1].size() == 3; });
    EXPECT_EQ(pair.came[0], (Ids{1, 2, 3}));
    EXPECT_EQ(pair.came[1], (Ids{1, 2, 3}));
    EXPECT_GE(pair.opener(), 0);
  }
  EXPECT_EQ(log_.lines(), "");
}

std::string name_of(const testing::TestParamInfo<std::tuple<bool, bool>>& info) {
  return std::string(std::get<0>(info.param) ? "OfAnswers" : "OfMessages") +
         (std::get<1>(info.param) ? "Encrypted" : "");
}

INSTANTIATE_TEST_SUITE_P(Lanes, Opening, testing::Combine(testing::Bool(), testing::Bool()), name_of);

}  // namespace
}  // namespace tutti::comm
