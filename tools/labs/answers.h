// Answers that a student writes into a text file: a line `NAME: value` each, comments behind '#'.
//
// Values and pure functions.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tutti::labs {

/// By name, without the names that have no value yet. Of two lines with one name the later counts.
using Answers = std::map<std::string, std::string>;

Answers read_answers(std::string_view text);

/// The number at the beginning of `answer`, behind which only a unit may stand ("1.8", "35 %", "1,5 s"); empty if there
/// is none.
std::optional<double> number_of(const std::string& answer);

/// The whole file; empty if it cannot be read, or is longer than 1 MiB.
std::optional<std::string> read_text(const std::filesystem::path& file);

}  // namespace tutti::labs
