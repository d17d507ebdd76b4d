#include <gtest/gtest.h>
#include <tutti/comm/schedule/checker.h>
#include <tutti/tests/support/expect_text.h>

#include <string>
#include <vector>

namespace tutti::comm {
namespace {

constexpr BufferId kIn = BufferId::Input;
constexpr BufferId kOut = BufferId::Output;
constexpr BufferId kScratch = BufferId::Scratch;

Step send(int peer, Slice source, std::vector<std::uint32_t> after = {}) {
  return {Step::Kind::Send, peer, source, {}, false, std::move(after)};
}
Step recv(int peer, Slice target, std::vector<std::uint32_t> after = {}) {
  return {Step::Kind::Recv, peer, {}, target, false, std::move(after)};
}
Step recv_reduce(int peer, Slice target, bool incoming_first, std::vector<std::uint32_t> after = {}) {
  return {Step::Kind::RecvReduce, peer, {}, target, incoming_first, std::move(after)};
}
Step copy(Slice target, Slice source, std::vector<std::uint32_t> after = {}) {
  return {Step::Kind::Copy, -1, source, target, false, std::move(after)};
}
Step reduce(Slice target, Slice source, bool incoming_first, std::vector<std::uint32_t> after = {}) {
  return {Step::Kind::Reduce, -1, source, target, incoming_first, std::move(after)};
}

/// all_reduce of 4 elements over 2 ranks, written out: each sends its vector, receives into scratch and adds.
std::vector<Schedule> all_reduce_of_two() {
  const Slice all{kOut, 0, 4}, spare{kScratch, 0, 4};
  return {{"test", {send(1, all), recv(1, spare), reduce(all, spare, false, {0, 1})}, 4},
          {"test", {send(0, all), recv(0, spare), reduce(all, spare, true, {0, 1})}, 4}};
}
const Problem kAllReduce{OpKind::AllReduce, 0, 2, 4};

/// broadcast of 2 elements from rank 0 along a chain of 3.
std::vector<Schedule> broadcast_chain() {
  const Slice all{kOut, 0, 2};
  return {{"test", {send(1, all)}}, {"test", {recv(0, all), send(2, all, {0})}}, {"test", {recv(1, all)}}};
}
const Problem kBroadcast{OpKind::Broadcast, 0, 3, 2};

TEST(Checker, AcceptsWhatIsRight) {
  EXPECT_EQ(check(kAllReduce, all_reduce_of_two()), "");
  EXPECT_EQ(check(kBroadcast, broadcast_chain()), "");
  EXPECT_EQ(check({OpKind::AllReduce, 0, 1, 4}, std::vector<Schedule>(1)), "");
  EXPECT_EQ(check({OpKind::Broadcast, 0, 3, 0}, std::vector<Schedule>(3)), "");
}

TEST(Checker, WrongNumberOfSchedulesOrRoot) {
  EXPECT_EQ(check({OpKind::Broadcast, 0, 2, 2}, broadcast_chain()), "world size 2 needs as many schedules, found 3");
  EXPECT_EQ(check({OpKind::Broadcast, 0, 3, 2, 3}, broadcast_chain()), "root 3 is outside of 0 .. 2");
  EXPECT_EQ(check({OpKind::Send, 0, 3, 2}, broadcast_chain()), "a send has no schedule to check");
}

TEST(Checker, WrongOffset) {
  auto schedules = all_reduce_of_two();
  schedules[1].steps[0].source = {kOut, 1, 3};
  schedules[0].steps[1].target = {kScratch, 0, 3};
  schedules[0].steps[2].source = {kScratch, 0, 3};
  schedules[0].steps[2].target = {kOut, 0, 3};
  EXPECT_EQ(check(kAllReduce, schedules),
            "step 2 at rank 0 (reduce of scratch[0, 3) into output[0, 3)): at output element 0 reduces input element 1 "
            "into input element 0");
}

TEST(Checker, WrongPlaceOfMovedData) {
  const Problem gather{OpKind::Gather, 0, 2, 1, 0};
  const Schedule sender{"test", {send(0, {kIn, 0, 1})}};
  const std::vector<Schedule> right{{"test", {copy({kOut, 0, 1}, {kIn, 0, 1}), recv(1, {kOut, 1, 1})}}, sender};
  const std::vector<Schedule> swapped{{"test", {copy({kOut, 1, 1}, {kIn, 0, 1}), recv(1, {kOut, 0, 1})}}, sender};
  EXPECT_EQ(check(gather, right), "");
  EXPECT_EQ(check(gather, swapped),
            "rank 0 output element 0: expected input element 0 of ranks 0, found input element 0 of ranks 1");
}

TEST(Checker, ReduceScatterNeedsTheOwnBlockOfEverybody) {
  const Problem problem{OpKind::ReduceScatter, 0, 2, 1};
  const auto rank = [](int peer, std::size_t kept, std::size_t sent) {
    const Slice result{kOut, 0, 1};
    return Schedule{"test",
                    {send(peer, {kIn, sent, 1}), recv(peer, result), reduce(result, {kIn, kept, 1}, false, {1})}};
  };
  const std::vector<Schedule> right{rank(1, 0, 1), rank(0, 1, 0)};
  const std::vector<Schedule> swapped{rank(1, 1, 0), rank(0, 0, 1)};
  EXPECT_EQ(check(problem, right), "");
  EXPECT_EQ(
      check(problem, swapped),
      "rank 0 output element 0: expected input element 0 of every rank once, found input element 1 of ranks 0, 1");
  const std::vector<Schedule> alone(2, Schedule{"test", {copy({kOut, 0, 1}, {kIn, 0, 1})}});
  EXPECT_EQ(check(problem, alone),
            "rank 0 output element 0: expected input element 0 of every rank once, found input element 0 of ranks 0");
}

TEST(Checker, AllToAllNeedsTheBlockThatWasMeantForTheRank) {
  const Problem problem{OpKind::AllToAll, 0, 2, 1};
  const auto rank = [](std::size_t self, int peer, std::size_t sent) {
    return Schedule{
        "test", {send(peer, {kIn, sent, 1}), recv(peer, {kOut, 1 - self, 1}), copy({kOut, self, 1}, {kIn, self, 1})}};
  };
  const std::vector<Schedule> right{rank(0, 1, 1), rank(1, 0, 0)};
  const std::vector<Schedule> wrong{rank(0, 1, 0), rank(1, 0, 0)};
  EXPECT_EQ(check(problem, right), "");
  EXPECT_EQ(check(problem, wrong),
            "rank 1 output element 0: expected input element 1 of ranks 0, found input element 0 of ranks 0");
}

TEST(Checker, MissingStep) {
  auto schedules = all_reduce_of_two();
  schedules[1].steps.pop_back();
  EXPECT_EQ(check(kAllReduce, schedules),
            "rank 1 output element 0: expected input element 0 of every rank once, found input element 0 of ranks 1");

  auto chain = broadcast_chain();
  chain[2].steps.clear();
  EXPECT_EQ(check(kBroadcast, chain), "step 1 at rank 1 (send of output[0, 2) to rank 2) has no matching receive");
  chain = broadcast_chain();
  chain[1].steps.pop_back();
  EXPECT_EQ(check(kBroadcast, chain), "step 0 at rank 2 (recv from rank 1 into output[0, 2)) has no matching send");
}

TEST(Checker, OutputThatNobodyWrites) {
  const Problem reduce_to_zero{OpKind::Reduce, 0, 1, 1, 0};
  EXPECT_EQ(check(reduce_to_zero, std::vector<Schedule>(1)),
            "rank 0 output element 0: expected input element 0 of every rank once, found nothing");
}

TEST(Checker, DoubleContribution) {
  auto schedules = all_reduce_of_two();
  const Slice all{kOut, 0, 4}, spare{kScratch, 0, 4};
  schedules[0].steps.push_back(reduce(all, spare, false, {2}));
  EXPECT_EQ(check(kAllReduce, schedules),
            "rank 0 output element 0: expected input element 0 of every rank once, found input element 0 of ranks 0, 1 "
            "(2 times)");
}

TEST(Checker, DifferentOrderOfOperands) {
  auto schedules = all_reduce_of_two();
  schedules[1].steps[2].incoming_first = false;
  EXPECT_EQ(check(kAllReduce, schedules),
            "rank 1 output element 0: expected the same order of operands as at rank 0, found another one; bits may "
            "differ");
}

TEST(Checker, WrongCount) {
  auto schedules = all_reduce_of_two();
  schedules[0].steps[0].source.count = 3;
  EXPECT_EQ(
      check(kAllReduce, schedules),
      "step 0 at rank 0 (send of output[0, 3) to rank 1) meets step 1 at rank 1 (recv from rank 0 into scratch[0, "
      "4)): their counts differ");
  schedules = all_reduce_of_two();
  schedules[0].steps[2].source.count = 3;
  EXPECT_EQ(check(kAllReduce, schedules),
            "step 2 at rank 0 (reduce of scratch[0, 3) into output[0, 4)) has source and target of different counts");
}

TEST(Checker, CyclicWait) {
  // Each reduces into what it is still sending, so each receives only after its own send: fine as long as the transport
  // buffers the message, stuck when it does not.
  const Slice all{kOut, 0, 4};
  const std::vector<Schedule> schedules{{"test", {send(1, all), recv_reduce(1, all, false, {0})}},
                                        {"test", {send(0, all), recv_reduce(0, all, true, {0})}}};
  EXPECT_EQ(
      check(kAllReduce, schedules),
      "deadlock: step 0 at rank 0 (send of output[0, 4) to rank 1) waits for step 1 at rank 1 (recv_reduce from "
      "rank 0 into output[0, 4)), which waits for step 0 at rank 1 (send of output[0, 4) to rank 0), which waits "
      "for step 1 at rank 0 (recv_reduce from rank 1 into output[0, 4)), which waits for step 0 at rank 0 (send of "
      "output[0, 4) to rank 1)");
}

TEST(Checker, MessagesToOnePeerKeepTheirOrder) {
  // Rank 0 could send its second message first, but messages to one peer go in the order of their steps.
  const Slice first{kOut, 0, 1}, second{kOut, 1, 1};
  const Problem problem{OpKind::Broadcast, 0, 2, 2};
  const std::vector<Schedule> schedules{{"test", {recv(1, {kScratch, 0, 1}), send(1, first, {0}), send(1, second)}, 1},
                                        {"test", {recv(0, first), recv(0, second), send(0, second, {1})}}};
  EXPECT_EQ(check(problem, schedules).substr(0, 9), "deadlock:");
}

TEST(Checker, MissingAfterIsARace) {
  auto schedules = all_reduce_of_two();
  schedules[0].steps[2].after = {1};
  EXPECT_EQ(
      check(kAllReduce, schedules),
      "step 2 at rank 0 (reduce of scratch[0, 4) into output[0, 4)) and step 0 at rank 0 (send of output[0, 4) to "
      "rank 1) touch the same elements in no order");
  schedules = all_reduce_of_two();
  schedules[1].steps[2].after = {0};
  EXPECT_EQ(check(kAllReduce, schedules),
            "step 2 at rank 1 (reduce of scratch[0, 4) into output[0, 4)) and step 1 at rank 1 (recv from rank 0 into "
            "scratch[0, 4)) touch the same elements in no order");
  auto chain = broadcast_chain();
  chain[1].steps[1].after.clear();
  EXPECT_EQ(check(kBroadcast, chain),
            "step 1 at rank 1 (send of output[0, 2) to rank 2) and step 0 at rank 1 (recv from rank 0 into output[0, "
            "2)) touch the same elements in no order");
}

TEST(Checker, OrderMayRunThroughOtherSteps) {
  auto schedules = all_reduce_of_two();
  schedules[0].steps[1].after = {0};
  schedules[0].steps[2].after = {1};
  schedules[1].steps[0].after = {};
  EXPECT_EQ(check(kAllReduce, schedules), "");
}

TEST(Checker, AfterMustNameAnEarlierStep) {
  auto schedules = all_reduce_of_two();
  schedules[0].steps[1].after = {1};
  EXPECT_EQ(check(kAllReduce, schedules),
            "step 1 at rank 0 (recv from rank 1 into scratch[0, 4)) comes after step 1, which is not an earlier one");
}

TEST(Checker, WriteToInput) {
  const Problem gather{OpKind::Gather, 0, 2, 1, 0};
  const std::vector<Schedule> schedules{{"test", {recv(1, {kIn, 0, 1})}}, {"test", {send(0, {kIn, 0, 1})}}};
  EXPECT_EQ(check(gather, schedules), "step 0 at rank 0 (recv from rank 1 into input[0, 1)) writes to input");
}

TEST(Checker, OutOfBounds) {
  auto schedules = all_reduce_of_two();
  schedules[1].scratch_count = 3;
  EXPECT_EQ(check(kAllReduce, schedules),
            "step 1 at rank 1 (recv from rank 0 into scratch[0, 4)) is out of bounds: scratch has 3 elements");
  schedules = all_reduce_of_two();
  schedules[0].steps[0].source.offset = 1;
  EXPECT_EQ(check(kAllReduce, schedules),
            "step 0 at rank 0 (send of output[1, 5) to rank 1) is out of bounds: output has 4 elements");
  schedules = all_reduce_of_two();
  schedules[0].steps[0].source.offset = SIZE_MAX;
  test::expect_parts(check(kAllReduce, schedules), {"is out of bounds"});
}

TEST(Checker, WrongPeer) {
  auto schedules = all_reduce_of_two();
  schedules[0].steps[0].peer = 2;
  EXPECT_EQ(check(kAllReduce, schedules),
            "step 0 at rank 0 (send of output[0, 4) to rank 2) names a peer outside of 0 .. 1");
  schedules[0].steps[0].peer = 0;
  EXPECT_EQ(check(kAllReduce, schedules), "step 0 at rank 0 (send of output[0, 4) to rank 0) talks to itself");
}

TEST(Checker, ReadOfWhatNothingHasWritten) {
  const Slice all{kOut, 0, 2};
  const std::vector<Schedule> schedules{{"test", {recv(1, all)}}, {"test", {send(0, all)}}};
  EXPECT_EQ(check({OpKind::Broadcast, 0, 2, 2, 0}, schedules),
            "step 0 at rank 1 (send of output[0, 2) to rank 0) reads output element 0, which nothing has written");
}

TEST(Checker, ReduceMustWorkInPlaceAtTheRoot) {
  // Received over Output first, Input added afterwards: right, unless Output is Input.
  const Slice input{kIn, 0, 2}, sum{kOut, 0, 2};
  const Problem problem{OpKind::Reduce, 0, 2, 2, 0};
  const Schedule sender{"test", {send(0, input)}};
  const std::vector<Schedule> wrong{{"test", {recv(1, sum), reduce(sum, input, true, {0})}}, sender};
  const std::vector<Schedule> right{{"test", {copy(sum, input), recv_reduce(1, sum, false, {0})}}, sender};
  EXPECT_EQ(check(problem, wrong),
            "with input and output in the same memory: step 1 at rank 0 (reduce of input[0, 2) into output[0, 2)) has "
            "overlapping source and target");
  EXPECT_EQ(check(problem, right), "");
}

TEST(Checker, AllGatherMustWorkWithInputInItsPlace) {
  const Problem problem{OpKind::AllGather, 0, 2, 1};
  const Slice input{kIn, 0, 1}, first{kOut, 0, 1}, second{kOut, 1, 1};
  const Schedule other{"test", {send(0, input), recv(0, first), copy(second, input)}};
  const std::vector<Schedule> right{{"test", {send(1, input), recv(1, second), copy(first, input)}}, other};
  // Rank 1's block passes through rank 0's place, which is right where Input lies elsewhere.
  const std::vector<Schedule> wrong{
      {"test", {send(1, input), recv(1, first), copy(second, first, {1}), copy(first, input, {2})}}, other};
  EXPECT_EQ(check(problem, right), "");
  EXPECT_EQ(check(problem, wrong),
            "with input and output in the same memory: step 1 at rank 0 (recv from rank 1 into output[0, 1)) and step "
            "0 at rank 0 (send of input[0, 1) to rank 1) touch the same elements in no order");
}

TEST(Checker, BarrierMustHearOfEverybody) {
  const Problem barrier{OpKind::Barrier, 0, 3};
  const Slice none{};
  // Around a ring twice would do; once does not: rank 1 has heard of rank 0 only.
  const std::vector<Schedule> once{{"test", {send(1, none), recv(2, none)}},
                                   {"test", {recv(0, none), send(2, none, {0})}},
                                   {"test", {recv(1, none), send(0, none, {0})}}};
  EXPECT_EQ(check(barrier, once), "rank 1 leaves the barrier without having heard of rank 2");
  // The message to rank 0 must not leave before the one from rank 1 has come.
  const std::vector<Schedule> early{{"test", {send(1, none), recv(2, none), send(1, none, {1}), send(2, none, {1})}},
                                    {"test", {recv(0, none), send(2, none, {0}), recv(0, none)}},
                                    {"test", {recv(1, none), send(0, none), recv(0, none)}}};
  EXPECT_EQ(check(barrier, early), "rank 0 leaves the barrier without having heard of rank 1");
  auto right = early;
  right[2].steps[1].after = {0};
  EXPECT_EQ(check(barrier, right), "");
}

}  // namespace
}  // namespace tutti::comm
