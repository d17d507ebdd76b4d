#include <gtest/gtest.h>
#include <stdlib.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/trace_file.h>

#include <clocale>
#include <cstdio>
#include <filesystem>

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
  EXPECT_NE(trace.find(R"("offset_us":1.500)"), std::string::npos) << trace;
  EXPECT_EQ(parse_number("1.5x"), std::nullopt);
}

}  // namespace
}  // namespace tutti::comm
