#include <gtest/gtest.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tools/labs/show/library_play.h>
#include <tutti/tools/labs/show/show_page.h>
#include <tutti/trainer/data/digest.h>

#include <nlohmann/json.hpp>

namespace tutti::labs {
namespace {

Case posed(int world_size, std::size_t count) { return {.world_size = world_size, .count = count}; }

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

std::string base64(const std::vector<unsigned char>& digest) {
  const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  unsigned held = 0, bits = 0;
  for (const unsigned byte : digest) {
    held = held << 8 | byte;
    for (bits += 8; bits >= 6; bits -= 6) text += digits[held >> (bits - 6) & 63U];
  }
  return text + digits[held << (6 - bits) & 63U] + "=";
}

TEST(LabShowPage, HasBothSidesAPlayerAndListsThatNeedNoScript) {
  const std::string html = show_page(page_of("reduce", posed(3, 2)));
  EXPECT_EQ(html.substr(0, 15), "<!DOCTYPE html>");
  test::expect_parts(html, {"<title>Lab reduce: the messages</title>"});
  for (const char* part : {"<section id=\"side0\"", "<section id=\"side1\"", "<div id=\"controls\" hidden",
                           "id=\"slider\"", "aria-live=\"polite\"", "<svg class=\"spacetime\""}) {
    EXPECT_EQ(count_of(html, part), std::string(part).starts_with("<svg") ? 2u : 1u) << part;
  }
  EXPECT_EQ(count_of(html, "<details open class=\"messages\"><summary>All 2 messages as a list"), 2u);
  test::expect_parts(html, {"<td>2 &rarr; 0</td>", "30 (of 2), 31 (of 2)"});  // what that message carries
}

TEST(LabShowPage, NothingComesFromOutsideAndOnlyItsOwnScriptRuns) {
  const std::string html = show_page(page_of("all_reduce", posed(4, 4)));
  EXPECT_EQ(html.find(" src="), std::string::npos);
  EXPECT_EQ(count_of(html, "href="), 1u);  // the icon, which is empty
  EXPECT_EQ(count_of(html, "http"), 2u);   // the policy's "http-equiv", and the name of SVG
  EXPECT_EQ(count_of(html, "<script"), 2u);
  const std::string hash = base64(trainer::Digest().add(between(html, "<script>", "</script>")).bytes());
  test::expect_parts(
      html, {"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" + hash + "'"});
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

TEST(LabShowPage, ADeadlockIsACycleInWordsAndAsAPicture) {
  ShowPage page = page_of("shift", posed(3, 1));
  Play& play = *page.student;
  play.outcome = Play::Outcome::Deadlock;
  play.events.clear();
  play.finish.assign(3, kNever);
  for (int rank = 0; rank < 3; ++rank) play.deadlock.push_back({rank, (rank + 1) % 3, "send of 1 element"});
  std::string html = show_page(page);
  test::expect_parts(html, {"<b>2 waits for 0</b> <span>in send of 1 element</span>"});
  EXPECT_EQ(count_of(html, "<svg class=\"cycle\""), 1u);
  EXPECT_EQ(count_of(html, "<path class=\"stuck-line\""), 3u);
  test::expect_parts(html, {"never done"});
  EXPECT_EQ(count_of(html, "<td>for ever</td><td>never</td>"), 3u);
  play.deadlock = {{0, 1, "recv"}, {1, 2, "recv"}};  // rank 2 has returned
  html = show_page(page);
  EXPECT_EQ(html.find("<svg class=\"cycle\""), std::string::npos);
  test::expect_parts(html, {"wait for what nobody will do"});
}

TEST(LabShowPage, AWrongResultIsMarkedElementByElement) {
  ShowPage page = page_of("broadcast", posed(2, 2));
  page.student->events.clear();  // rank 1 keeps what it had
  const std::string html = show_page(page);
  test::expect_parts(html,
                     {"<b>The result is wrong.</b>", "<li>rank 1, data[0]: 20 (of 1), and should be 10 (of 0)</li>"});
  EXPECT_EQ(data_of(html)["wrong"].size(), 2u);
  EXPECT_EQ(show_page(page_of("broadcast", posed(2, 2))).find("is wrong"), std::string::npos);
}

TEST(LabShowPage, ASubmissionThatDidNotRunLeavesTheLibrarysSide) {
  ShowPage page = page_of("broadcast", posed(2, 2));
  page.student.reset();
  page.failure = "error: expected ';'\nat the end";
  const std::string html = show_page(page);
  test::expect_parts(html, {"could not be run</h2><pre>error: expected &#39;;&#39;\nat the end</pre>"});
  EXPECT_EQ(count_of(html, "<section id=\"side"), 1u);
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
  test::expect_parts(html, {"events are not shown"});
}

}  // namespace
}  // namespace tutti::labs
