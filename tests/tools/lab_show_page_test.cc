// `tutti lab show`: what of a run is shown, and the page that shows it.
#include <gtest/gtest.h>
#include <tutti/tools/labs/show/library_play.h>
#include <tutti/tools/labs/show/show_page.h>
#include <tutti/tools/labs/show/side.h>
#include <tutti/trainer/data/digest.h>

#include <cmath>
#include <nlohmann/json.hpp>

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

ShowPage page_of(const std::string& function, const Case& made) {
  ShowPage page{.lab = function, .setting = "a small world"};
  page.library = library_play(function, made);
  page.student = page.library;
  page.student->title = "Your " + function;
  return page;
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) ++count;
  return count;
}

std::string between(const std::string& text, const std::string& from, const std::string& to) {
  const std::size_t begin = text.find(from) + from.size();
  return text.substr(begin, text.find(to, begin) - begin);
}

nlohmann::json data_of(const std::string& html) {
  return nlohmann::json::parse(between(html, "<script type=\"application/json\" id=\"data\">", "</script>"));
}

// What the scripts draw of it, lab_show_in_browser.py checks.
TEST(LabShowPage, HasAPlayerAndBothSides) {
  const std::string html = show_page(page_of("reduce", posed(3, 2)));
  EXPECT_EQ(html.substr(0, 15), "<!DOCTYPE html>");
  EXPECT_NE(html.find("<title>Lab reduce: the messages</title>"), std::string::npos);
  for (const char* part : {"<div id=\"controls\" hidden", "id=\"slider\"", "aria-live=\"polite\"", "<noscript>"}) {
    EXPECT_EQ(count_of(html, part), 1u) << part;
  }
  const auto sides = data_of(html)["sides"];
  ASSERT_EQ(sides.size(), 2u);
  EXPECT_EQ(sides[0]["is_library"], false);
  EXPECT_EQ(sides[1]["is_library"], true);
}

TEST(LabShowPage, NothingComesFromOutsideAndOnlyItsOwnScriptRuns) {
  const std::string html = show_page(page_of("all_reduce", posed(4, 4)));
  EXPECT_EQ(html.find(" src="), std::string::npos);
  EXPECT_EQ(count_of(html, "href="), 1u);  // the icon, which is empty
  EXPECT_EQ(count_of(html, "http"), 2u);   // the policy's "http-equiv", and the name of SVG
  for (const char* way : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write"}) {
    EXPECT_EQ(count_of(html, way), 0u) << "a text of a submission could become HTML: " << way;
  }
  EXPECT_EQ(count_of(html, "<script"), 2u);
  const std::string hash = trainer::Digest().add(between(html, "<script>", "</script>")).base64();
  EXPECT_NE(html.find("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" + hash + "'"),
            std::string::npos);
}

TEST(LabShowPage, TheScriptsDataAreWhatHappened) {
  const auto data = data_of(show_page(page_of("reduce", posed(2, 1))));
  ASSERT_EQ(data["sides"].size(), 2u);
  EXPECT_EQ(data["stops"].size(), 3u);  // the start, the message's end, the sum's end
  const auto& side = data["sides"][0];
  EXPECT_EQ(side["title"], "Your reduce");
  EXPECT_EQ(side["root"], 0);
  EXPECT_EQ(side["events"][0][0], "s");
  EXPECT_EQ(side["events"][0][1], 1);
  EXPECT_EQ(side["events"][0][2], 0);
  EXPECT_EQ(side["events"][0][10].size(), 1u);  // what that message carries
  EXPECT_EQ(data["cells"][side["events"][0][10][0].get<std::size_t>()], (nlohmann::json{"20", "1", "01"}));
  EXPECT_EQ(side["outcome"], "right");
  EXPECT_EQ(side["ranks"][1]["sent"], 1);
  EXPECT_EQ(side["ranks"][0]["received"], 1);
  EXPECT_EQ(side["ranks"][1]["bytes"], 8);
  const auto& last = side["changes"].back();
  EXPECT_EQ(data["cells"][last[5][0].get<std::size_t>()], (nlohmann::json{"30", "0 1", "11"}));
}

TEST(LabShowPage, HostileTextsStayTexts) {
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\x80\x01";
  ShowPage page = page_of("shift", posed(2, 1));
  page.lab = page.setting = page.failure = evil;
  Play& play = *page.student;
  play.title = play.explanation = evil;
  play.outcome = Play::Outcome::Deadlock;
  play.buffers[0].name = evil;
  play.deadlock = {{0, 1, evil}, {1, 0, evil}};
  for (int rank : {0, 1}) {
    play.events.push_back(
        {.kind = PlayEvent::Kind::Wait, .rank = rank, .peer = 1 - rank, .begin = 1, .end = kNever, .text = evil});
  }
  const std::string html = show_page(page);
  EXPECT_EQ(count_of(html, "<script"), 2u);
  EXPECT_EQ(count_of(html, "</script"), 2u);
  EXPECT_EQ(html.find("<img"), std::string::npos);
  EXPECT_EQ(html.find('\x80'), std::string::npos);
  EXPECT_EQ(html.find('\x01'), std::string::npos);
  EXPECT_EQ(data_of(html)["sides"][0]["title"].get<std::string>().substr(0, 9), "</script>");
}

TEST(LabShowPage, ADeadlockSaysWhichRankWaitsForWhich) {
  ShowPage page = page_of("shift", posed(3, 1));
  Play& play = *page.student;
  play.outcome = Play::Outcome::Deadlock;
  play.events = {{.kind = PlayEvent::Kind::Wait, .rank = 1, .peer = 2, .begin = 0, .end = kNever}};
  play.finish.assign(3, kNever);
  for (int rank = 0; rank < 3; ++rank) play.deadlock.push_back({rank, (rank + 1) % 3, "send of 1 element"});
  const auto data = data_of(show_page(page));
  const auto& side = data["sides"][0];
  EXPECT_EQ(side["outcome"], "deadlock");
  EXPECT_EQ(side["deadlock"][2], (nlohmann::json{{"rank", 2}, {"peer", 0}, {"text", "send of 1 element"}}));
  EXPECT_TRUE(side["ranks"][0]["finish"].is_null());
  EXPECT_TRUE(side["events"][0][7].is_null());
  EXPECT_TRUE(data["wrong"].empty());  // there is no result to compare
}

TEST(LabShowPage, AWrongResultIsMarkedElementByElement) {
  ShowPage page = page_of("broadcast", posed(2, 2));
  page.student->events.clear();  // rank 1 keeps what it had
  const auto data = data_of(show_page(page));
  ASSERT_EQ(data["wrong"].size(), 2u);
  const auto& first = data["wrong"][0];  // buffer, rank, element, the cell that should be there, the one that is
  EXPECT_EQ(data["sides"][0]["buffers"][first[0].get<std::size_t>()]["name"], "data");
  EXPECT_EQ(first[1], 1);
  EXPECT_EQ(first[2], 0);
  EXPECT_EQ(data["cells"][first[3].get<std::size_t>()], (nlohmann::json{"10", "0", "10"}));
  EXPECT_EQ(data["cells"][first[4].get<std::size_t>()], (nlohmann::json{"20", "1", "01"}));
  EXPECT_TRUE(data_of(show_page(page_of("broadcast", posed(2, 2))))["wrong"].empty());
}

TEST(LabShowPage, ASubmissionThatDidNotRunLeavesTheLibrarysSide) {
  ShowPage page = page_of("broadcast", posed(2, 2));
  page.student.reset();
  page.failure = "error: expected ';'\nat the end";
  const std::string html = show_page(page);
  EXPECT_NE(html.find("could not be run</h2><pre>error: expected &#39;;&#39;\nat the end</pre>"), std::string::npos);
  ASSERT_EQ(data_of(html)["sides"].size(), 1u);
  EXPECT_EQ(data_of(html)["sides"][0]["is_library"], true);
  page.library.reset();
  EXPECT_EQ(count_of(show_page(page), "id=\"controls\""), 0u);
}

TEST(LabShowPage, StaysSmallHoweverLongTheRun) {
  ShowPage page = page_of("all_reduce", posed(16, 64));
  Play& play = *page.student;
  for (int i = 0; i < 50000; ++i) {
    PlayEvent event{.kind = PlayEvent::Kind::Send,
                    .rank = i % 16,
                    .peer = (i + 1) % 16,
                    .bytes = 8,
                    .begin = i * 1e-6,
                    .end = (i + 1) * 1e-6};
    event.after = {{0, 0, std::vector<std::uint64_t>(64, static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U)}};
    event.text = std::string(10000, 'x');
    play.events.push_back(std::move(event));
  }
  play.explanation = std::string(1 << 20, 'y');
  const std::string html = show_page(page);
  EXPECT_LT(html.size(), 6u << 20);
  EXPECT_NE(html.find("events are not shown"), std::string::npos);
}

}  // namespace
}  // namespace tutti::labs::show
