#include <gtest/gtest.h>
#include <tutti/tools/labs/show/library_play.h>
#include <tutti/tools/labs/show/side.h>

#include <cmath>

namespace tutti::labs::show {
namespace {

using Kind = PlayEvent::Kind;

Case posed(int world_size, std::size_t count) { return {.world_size = world_size, .count = count}; }

PlayEvent event(Kind kind, int rank, int peer, double begin, double end) {
  return {.kind = kind, .rank = rank, .peer = peer, .begin = begin, .end = end};
}

Play of_two() {
  Play play;
  play.world_size = 2;
  play.buffers = {{"data", false, {{play_word(0, 0, 2)}, {play_word(1, 0, 2)}}}};
  play.finish = {10, 10};
  return play;
}

Side side_of(const Play& play, Cells& cells) { return make_side(play, Stops({&play}), cells); }

std::string who(int world_size, const std::vector<int>& ranks) {
  Cells cells(world_size);
  std::uint64_t word = 0;
  for (const int rank : ranks) word += play_word(rank, 0, world_size);
  return cells.at(cells.add(word)).who;
}

TEST(LabShowCells, WhoHasContributed) {
  EXPECT_EQ(who(5, {}), "nobody");
  EXPECT_EQ(who(5, {3}), "3");
  EXPECT_EQ(who(5, {0, 1}), "0 1");
  EXPECT_EQ(who(5, {0, 1, 2, 4}), "0-2 4");
  EXPECT_EQ(who(5, {0, 1, 2, 3, 4}), "all");
  EXPECT_EQ(who(2, {0, 1}), "0 1");
  EXPECT_EQ(who(5, {0, 1, 1, 2}), "0 1 x2 2");
  EXPECT_EQ(who(16, {0, 2, 4, 6, 8, 10}), "6 ranks");
  EXPECT_EQ(who(17, {3}), "");
}

TEST(LabShowCells, MemoryThatNobodyHasWrittenIsNoNumber) {
  Cells cells(4);
  EXPECT_EQ(cells.at(cells.add(0x7FFC'0ED0'7FFC'0ED0)).who, "unset");
  EXPECT_EQ(cells.at(cells.add(0x7FFC'B1B1'7FFC'B1B1)).who, "on its way");
  EXPECT_EQ(cells.at(cells.add(0x7F7F'7F7F'7F7F'7F7F)).value, "?");
  EXPECT_EQ(cells.add(0x7F7F'7F7F'7F7F'7F7F), 2);  // known already
}

TEST(LabShowStops, MomentsOfBothSidesInOneOrder) {
  Play one = of_two(), other = of_two();
  one.events = {event(Kind::Send, 0, 1, 0, 3)};
  other.events = {event(Kind::Send, 0, 1, 1, 3.0000000001), event(Kind::Wait, 1, 0, 4, kNever)};
  const Stops stops({&one, nullptr, &other});
  EXPECT_EQ(stops.seconds(), (std::vector<double>{0, 1, 3, 4, 10}));
  EXPECT_EQ(stops.at(3.0000000001), 2);
  EXPECT_EQ(stops.at(kNever), 5);
}

TEST(LabShowSide, WaitingIsWhatIsLeftOfARanksTime) {
  Play play = of_two();
  // Rank 1 is blocked from 0 to 6, of which the message takes 4 to 6, and adds from 6 to 7; both return at 10.
  play.events = {event(Kind::Wait, 1, 0, 0, 6), event(Kind::Send, 0, 1, 4, 6), event(Kind::Recv, 1, 0, 4, 6),
                 event(Kind::Combine, 1, -1, 6, 7)};
  Cells cells(2);
  const Side side = side_of(play, cells);
  EXPECT_DOUBLE_EQ(side.ranks[0].waiting, 8);
  EXPECT_DOUBLE_EQ(side.ranks[1].waiting, 7);
  ASSERT_EQ(side.events[0].kind, Kind::Wait);
  EXPECT_DOUBLE_EQ(side.events[0].end, 4);  // what comes after is no waiting
  EXPECT_EQ(side.ranks[0].sent, 1u);
  EXPECT_EQ(side.ranks[1].received, 1u);
}

TEST(LabShowSide, WhatCannotBeIsLeftOutAndCounted) {
  Play play = of_two();
  play.events = {event(Kind::Send, 0, 7, 0, 1),           event(Kind::Send, -1, 0, 0, 1),
                 event(Kind::Send, 0, -1, 0, 1),          event(Kind::Send, 0, 1, 2, 1),
                 event(Kind::Send, 0, 1, NAN, 1),         event(Kind::Send, 0, 1, -1, 1),
                 event(Kind::Wait, 0, 1, kNever, kNever), event(Kind::Send, 0, 1, 0, 1)};
  play.events.back().after = {{7, 0, {1}}, {-1, 0, {1}}, {0, std::size_t{1} << 60, {1}}};
  play.finish = {NAN};
  Cells cells(2);
  const Side side = side_of(play, cells);
  EXPECT_EQ(side.events.size(), 1u);
  EXPECT_TRUE(side.changes.empty());
  EXPECT_EQ(side.ranks[0].finish, kNever);
  ASSERT_EQ(side.remarks.size(), 1u);
  EXPECT_EQ(side.remarks[0].substr(0, 24), "7 events are not shown: ");
}

TEST(LabShowSide, ALargeRunIsCutAndSaysSo) {
  Play play = of_two();
  play.world_size = 100;
  play.buffers[0].initial.assign(100, std::vector<std::uint64_t>(1000));
  for (int i = 0; i < 20000; ++i) play.events.push_back(event(Kind::Send, i % 16, (i + 1) % 16, i, i + 1));
  play.events_left_out = 5;
  Cells cells(100);
  const Side side = side_of(play, cells);
  EXPECT_EQ(side.events.size(), kMostPlayEvents);
  EXPECT_EQ(side.ranks.size(), 16u);
  EXPECT_EQ(side.buffers[0].initial.size(), 16u);
  EXPECT_EQ(side.buffers[0].initial[3].size(), kMostCells);
  ASSERT_EQ(side.remarks.size(), 3u);
  EXPECT_EQ(side.remarks[0], "Of 100 ranks the first 16 are shown, and messages among them.");
  EXPECT_EQ(side.remarks[1].substr(0, 13), "16005 events ");
  EXPECT_EQ(side.remarks[2], "Of each buffer the first 32 elements are shown.");
}

TEST(LabShowSide, ABarrierShowsWhoHasHeardOfWhom) {
  const Play play = library_play("barrier", posed(5, 0));
  Cells cells(5);
  const Side side = side_of(play, cells);
  ASSERT_EQ(side.buffers.size(), 2u);
  EXPECT_EQ(side.buffers[1].name, "has heard of");
  EXPECT_EQ(cells.at(side.buffers[1].initial[3][0]).who, "3");
  const auto cell_after = [&](int stop) {
    int last = -1;
    for (const Change& change : side.changes) {
      if (change.rank == 3 && change.at <= stop) last = change.cells[0];
    }
    return cells.at(last);
  };
  EXPECT_EQ(cell_after(1).who, "2 3");  // dissemination: from the one before
  EXPECT_EQ(cell_after(3).who, "all");
  EXPECT_EQ(cell_after(3).value, "5");
}

TEST(LabShowSide, DifferencesAreWhereTheResultIsWrong) {
  const Play library = library_play("all_reduce", posed(3, 4), "ring");
  Play student = library_play("all_reduce", posed(3, 4), "recursive_doubling");
  Cells cells(3);
  const Stops stops({&student, &library});
  EXPECT_TRUE(differences(make_side(student, stops, cells), make_side(library, stops, cells)).empty());
  // At the very end rank 1's third element is counted once too often.
  PlayEvent spoils = event(Kind::Copy, 1, -1, student.finish[1], student.finish[1]);
  spoils.after = {{0, 2, {play_word(0, 2, 3) + play_word(1, 2, 3) * 2 + play_word(2, 2, 3)}}};
  student.events.push_back(spoils);
  const Side side = make_side(student, stops, cells);
  const std::vector<Difference> found = differences(side, make_side(library, stops, cells));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 1);
  EXPECT_EQ(found[0].index, 2u);
  EXPECT_EQ(cells.at(found[0].found).who, "0 1 x2 2");
  EXPECT_EQ(cells.at(found[0].expected).who, "all");
}

}  // namespace
}  // namespace tutti::labs::show
