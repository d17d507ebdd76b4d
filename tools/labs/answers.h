// Answers that a student writes into answers.txt, a line `NAME: value` each, comments behind '#', and their grading
// against the lab's answer table: exercises/LAB/key.json, which is in the program and not in what students get.
//
//   {"questions": [
//     {"name": "fastest", "title": "...", "points": 10, "hint": "...", "right": ["2x2", "4x1"]},
//     {"name": "speedup", "title": "...", "points": 10, "hint": "...", "number": 2.86, "tolerance": 0.09}]}
//
// Values and functions over files.
#pragma once

#include <tutti/tools/labs/lab_definition.h>

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

/// A stage for each question of the lab's answer table.
void grade_answers(const CheckContext& context, Report& report);

/// The check of a lab that consists of questions.
Report check_answers(const CheckContext& context);

/// The text of a file of the lab that students do not get. Throws std::logic_error if there is none.
std::string_view answer_table(const std::string& lab, const std::string& file);

/// The whole file; empty if it cannot be read, or is longer than 1 MiB.
std::optional<std::string> read_text(const std::filesystem::path& file);

}  // namespace tutti::labs
