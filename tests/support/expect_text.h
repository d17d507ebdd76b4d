// Expectations on a text. A failure names the caller's line, what was looked for, and the whole text.
#pragma once

#include <gtest/gtest.h>

#include <regex>
#include <source_location>
#include <string>
#include <vector>

namespace tutti::test {

/// Each of `parts` stands in `text`.
inline void expect_parts(const std::string& text, const std::vector<std::string>& parts,
                         std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "expect_parts");
  for (const std::string& part : parts) EXPECT_PRED_FORMAT2(testing::IsSubstring, part, text);
}

/// None of `parts` stands in `text`.
inline void expect_absent(const std::string& text, const std::vector<std::string>& parts,
                          std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "expect_absent");
  for (const std::string& part : parts) EXPECT_PRED_FORMAT2(testing::IsNotSubstring, part, text);
}

/// The regular expression `pattern` matches a part of `text`.
inline void expect_match(const std::string& text, const std::string& pattern,
                         std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "expect_match");
  EXPECT_TRUE(std::regex_search(text, std::regex(pattern))) << pattern << "\nmatches nothing in\n" << text;
}

}  // namespace tutti::test
