#include <gtest/gtest.h>
#include <stdlib.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/base/terminal.h>
#include <tutti/comm/base/text.h>
#include <tutti/comm/bootstrap/meeting_file.h>
#include <tutti/comm/trace.h>
#include <tutti/tests/support/expect_text.h>

#include <clocale>
#include <cstdio>
#include <filesystem>
#include <locale>
#include <string>

namespace tutti::comm {
namespace {

// A locale with a comma, made for the test: machines have none.
TEST(Format, NumbersDoNotDependOnTheLocale) {
  char folder[] = "/tmp/tutti-locale-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string made = std::string(folder) + "/de_DE.UTF-8";
  const int status = std::system(("localedef -i de_DE -f UTF-8 " + made + " >" + folder + "/said 2>&1").c_str());
  setenv("LOCPATH", folder, 1);
  const bool there = std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
  std::filesystem::remove_all(folder);
  unsetenv("LOCPATH");
  if (!there) GTEST_SKIP() << "no locale with a decimal comma, and localedef ended with " << status;
  char raw[16];
  std::snprintf(raw, sizeof raw, "%.1f", 1.5);
  const std::string text = format("%.3f %g %a", 1234.5, 0.25, 1.5);
  const auto decimal = parse_number("2.5"), hexadecimal = parse_number("0x1.8p+0");
  const std::string trace = trace_events({}, 0, {.to_rank_0 = std::chrono::nanoseconds(1500)}, {});
  std::setlocale(LC_ALL, "C");
  EXPECT_STREQ(raw, "1,5");
  EXPECT_EQ(text, "1234.500 0.25 0x1.8p+0");
  EXPECT_EQ(decimal, 2.5);
  EXPECT_EQ(hexadecimal, 1.5);
  test::expect_parts(trace, {R"("offset_us":1.5,)"});
  EXPECT_EQ(parse_number("1.5x"), std::nullopt);
}

// As std::locale::global(std::locale("de_DE")) makes every new stream of the program write 51.234.
TEST(Format, WholeNumbersDoNotDependOnTheGlobalLocaleOfStreams) {
  struct Grouping : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Grouping));
  Announcement announcement;
  announcement.pid = 1234567;
  announcement.port = 51234;
  const std::string text = encode_announcement(announcement, "secret");
  const std::string number = joined(1234567);
  std::locale::global(before);
  test::expect_parts(text, {R"("pid":1234567)", R"("port":51234)"});
  EXPECT_EQ(number, "1234567");
}

TEST(Format, PartsAndWholeNumbersAreTheWholeText) {
  EXPECT_EQ(split("", ','), std::vector<std::string>{""});
  EXPECT_EQ(split(",a,,b", ','), (std::vector<std::string>{"", "a", "", "b"}));
  EXPECT_EQ(decimal<int>("-12"), -12);
  EXPECT_EQ(decimal<double>("1.5"), 1.5);
  for (const char* wrong : {"", " 1", "1 ", "1.5", "0x1", "65536", "-1"})
    EXPECT_EQ(decimal<std::uint16_t>(wrong), std::nullopt) << wrong;
}

TEST(Terminal, PartsThatDoNotFitAreLeftOutWhole) {
  EXPECT_EQ(fitted("epoch 1/5  loss 0.5  12 s left", 31), "epoch 1/5  loss 0.5  12 s left");
  EXPECT_EQ(fitted("epoch 1/5  loss 0.5  12 s left", 30), "epoch 1/5  loss 0.5");
  EXPECT_EQ(fitted("epoch 1/5  loss 0.5", 5), "epoc");
  EXPECT_EQ(fitted("\u00e4\u00f6\u00fc", 3), "\u00e4\u00f6");
}

TEST(Terminal, LinesAreBrokenAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 6), "one\ntwo\nthree");
  EXPECT_EQ(wrapped("a word0123456789 b", 5), "a\nword0123456789\nb");
  EXPECT_EQ(wrapped("a b\n   0  1", 4), "a b\n   0\n1");
  EXPECT_EQ(wrapped("one two  ", 7), "one two  ");
  EXPECT_EQ(wrapped("one two", 0), "one two");
}

TEST(Terminal, OfALiveLineFilesGetNothingAndLaunchersPlainText) {
  testing::internal::CaptureStderr();
  LiveLine(stderr).show("a file");
  LiveLine(nullptr, true).show("no file");
  LiveLine(stderr, true).show("at 10 %\x1b[2J");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "at 10 %?[2J\r\r");
}

}  // namespace
}  // namespace tutti::comm
