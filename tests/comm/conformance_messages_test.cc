// Messages of every length on every transport, in every order of the two sides that cannot deadlock.
#include <gtest/gtest.h>
#include <tutti/comm/point_to_point/point_to_point.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/comm/net_test.h>

#include <vector>

namespace tutti::comm {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kLengths[] = {0, 1, kEagerBytes - 1, kEagerBytes, kEagerBytes + 1, 1024 * 1024, 16 << 20};

/// Another for each sender and length; its period divides no page.
Bytes message_of(int sender, std::size_t nbytes) {
  Bytes bytes(nbytes);
  for (std::size_t i = 0; i < nbytes; ++i)
    bytes[i] = static_cast<std::uint8_t>(i % 251 + 3 * static_cast<std::size_t>(sender) + nbytes % 7);
  return bytes;
}

/// One exchange with `peer` of `mine`, returns what came. `first`: this rank's turn comes first where turns matter.
using Exchange = void (*)(ProcessGroup& group, int peer, bool first, Bytes& mine, Bytes& theirs);

void send_then_receive_then_the_other_way(ProcessGroup& group, int peer, bool first, Bytes& mine, Bytes& theirs) {
  if (first) group.send(std::span(mine), peer);
  EXPECT_EQ(group.recv(std::span(theirs), peer), peer);
  if (!first) group.send(std::span(mine), peer);
}

void both_send_first(ProcessGroup& group, int peer, bool, Bytes& mine, Bytes& theirs) {
  if (mine.size() <= kEagerBytes) {  // these are buffered
    group.send(std::span(mine), peer);
    EXPECT_EQ(group.recv(std::span(theirs), peer), peer);
    return;
  }
  Work sent = group.isend(buffer(std::span(mine)), peer);
  EXPECT_EQ(group.recv(std::span(theirs), peer), peer);
  sent.wait();
}

void both_receive_first(ProcessGroup& group, int peer, bool, Bytes& mine, Bytes& theirs) {
  Work received = group.irecv(buffer(std::span(theirs)), peer);
  group.send(std::span(mine), peer);
  received.wait();
  EXPECT_EQ(received.source_rank(), peer);
}

void one_sends_first_the_other_receives_first(ProcessGroup& group, int peer, bool first, Bytes& mine, Bytes& theirs) {
  if (!first) return both_receive_first(group, peer, first, mine, theirs);
  Work sent = group.isend(buffer(std::span(mine)), peer);
  Work received = group.irecv(buffer(std::span(theirs)), kAnySource);
  sent.wait();
  received.wait();
  EXPECT_EQ(received.source_rank(), peer);
}

void both_at_once(ProcessGroup& group, int peer, bool, Bytes& mine, Bytes& theirs) {
  EXPECT_EQ(group.sendrecv(const_buffer(std::span(mine)), peer, buffer(std::span(theirs)), peer), peer);
}

struct Order {
  const char* name;
  Exchange exchange;
};
constexpr Order kOrders[] = {{"in turn", send_then_receive_then_the_other_way},
                             {"both send first", both_send_first},
                             {"both receive first", both_receive_first},
                             {"one of each", one_sends_first_the_other_receives_first},
                             {"sendrecv", both_at_once}};

class Messages : public OverNets {};

TEST_P(Messages, OfEveryLengthInEveryOrder) {
  run(2, [](ProcessGroup& group) {
    const int peer = 1 - group.rank();
    for (const std::size_t nbytes : kLengths)
      for (const Order& order : kOrders)
        for (const int leader : {0, 1}) {
          Bytes mine = message_of(group.rank(), nbytes), theirs(nbytes);
          order.exchange(group, peer, group.rank() == leader, mine, theirs);
          ASSERT_TRUE(theirs == message_of(peer, nbytes)) << nbytes << " bytes, " << order.name;
          ASSERT_TRUE(mine == message_of(group.rank(), nbytes)) << "sent: " << nbytes << " bytes, " << order.name;
        }
  });
}

/// Everybody to everybody, all in flight at once, and a collective in their midst.
TEST_P(Messages, AllPairsAtOnceInBothOrders) {
  run(5, [](ProcessGroup& group) {
    for (const bool send_first : {true, false})
      for (const std::size_t nbytes : {std::size_t{0}, kEagerBytes, kEagerBytes + 1, std::size_t{1} << 20}) {
        Bytes mine = message_of(group.rank(), nbytes);
        std::vector<Bytes> theirs(5, Bytes(nbytes));
        std::vector<Work> works;
        const auto post = [&](bool sends) {
          for (int peer = 0; peer < 5; ++peer)
            works.push_back(sends ? group.isend(buffer(std::span(mine)), peer, 4)
                                  : group.irecv(buffer(std::span(theirs[static_cast<std::size_t>(peer)])), peer, 4));
        };
        post(send_first);
        group.barrier();
        post(!send_first);
        for (Work& work : works) work.wait();
        for (int peer = 0; peer < 5; ++peer)
          ASSERT_TRUE(theirs[static_cast<std::size_t>(peer)] == message_of(peer, nbytes))
              << nbytes << " bytes from " << peer;
      }
  });
}

INSTANTIATE_TEST_SUITE_P(Nets, Messages, testing::ValuesIn(kNets), testing::PrintToStringParamName());

}  // namespace
}  // namespace tutti::comm
