#include <gtest/gtest.h>
#include <tutti/tools/run/output.h>

#include <string>
#include <vector>

namespace tutti::tools {
namespace {

using Lines = std::vector<std::string>;

/// Lines that the next one replaces end in '~' here.
Lines split(const std::vector<std::string>& pieces) {
  LineSplitter splitter;
  Lines lines;
  const auto collect = [&](std::string_view line, bool live) {
    lines.push_back(std::string(line) + (live ? "~" : ""));
  };
  for (const std::string& piece : pieces) splitter.feed(piece, collect);
  splitter.finish(collect);
  return lines;
}

TEST(LineSplitter, JoinsPiecesAndFlushesTheLastLine) {
  EXPECT_EQ(split({"a", "b\nc", "\n", "\nd"}), (Lines{"ab", "c", "", "d"}));
  EXPECT_EQ(split({"a\n"}), (Lines{"a"}));
  EXPECT_EQ(split({}), (Lines{}));
}

TEST(LineSplitter, TreatsCarriageReturnsAsLineEnds) {
  EXPECT_EQ(split({"a\r\nb\r", "\nc"}), (Lines{"a", "b", "c"}));
  EXPECT_EQ(split({"\r10%\r20%\n"}), (Lines{"10%~", "20%"}));
  EXPECT_EQ(split({"10%\r", "\r20%\r\r", "30%\r"}), (Lines{"10%~", "20%~", "30%~"}));
  EXPECT_EQ(split({"\r", "\n\r\n"}), (Lines{"", ""}));
}

TEST(LineSplitter, CutsALineThatDoesNotEnd) {
  const std::string big(LineSplitter::kMaxLine + 5, 'x');
  const Lines lines = split({big});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].size(), LineSplitter::kMaxLine);
  EXPECT_EQ(lines[1], "xxxxx");
}

}  // namespace
}  // namespace tutti::tools
