// Report: what `tutti lab check` found, as a table for people and as JSON for graders.
//
// Values. Texts may quote a submission (its output, file names): whoever prints them to a terminal or a page escapes
// them, as print() does.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tutti::labs {

/// One thing that is wrong. `diagnosis` is a stable word for programs (diagnosis.h lists them); the texts are for
/// people.
struct Finding {
  std::string diagnosis;      // "only_powers_of_two"
  std::string text;           // what happened, where, with which values
  std::string hint{};         // where to look, without the answer
  std::string evidence{};     // diagnosis of the first case that failed, where `diagnosis` is of the whole stage
  std::string failed_case{};  // "3 ranks, 12 float64, sum, root 0"
};

struct StageResult {
  std::string name;
  std::string title;
  int points = 0;
  int of = 0;
  bool was_run = true;  // false: not tried, since an earlier stage makes it pointless
  std::optional<Finding> finding{};
  std::string note{};  // "at most 3 messages a rank, 3 allowed"

  bool passed() const { return was_run && points == of; }
};

Finding finding_of(std::string diagnosis, std::string text, std::string hint);

/// Full points without a finding, else none.
StageResult stage_of(std::string name, std::string title, int points, std::optional<Finding> finding);
StageResult stage_not_tried(std::string name, std::string title, int points);

/// A number with its unit: "rounds", 3, "".
struct Measurement {
  std::string name;
  double value = 0;
  std::string unit{};
};

struct Report {
  std::string lab;
  std::string source;                // the file that was graded
  std::optional<Finding> failure{};  // what kept it from being graded at all: does not compile, empty function
  std::vector<StageResult> stages{};
  std::vector<Measurement> measurements{};
  std::string measured_on = "the virtual network, 8 ranks";
  std::vector<std::string> notes{};
  double seconds = 0;  // that grading took

  int points() const;
  int of() const;
  bool passed() const;  // full marks
  /// The first finding, which is what a student should look at first; null if there is none.
  const Finding* first_finding() const;
};

void print(std::ostream& out, const Report& report);

/// {"lab","source","passed","score","max_score","diagnosis","finding","stages":[{"name","title","points","of","was_run",
/// "diagnosis","evidence","text","hint","case","note"}],"measurements":[{"name","value","unit"}],"notes":[],"seconds"};
/// what does not apply is null. `finding` is an object like a stage's, without points.
std::string json_of(const Report& report);

/// `text` without what a terminal would obey: control characters become "\xNN", but newlines stay.
std::string printable(const std::string& text);

}  // namespace tutti::labs
