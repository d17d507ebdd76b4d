// Lab compare: own reduce and all_reduce, and how long a collective takes.

#include <tutti/comm/base/format.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/measured/measured.h>

#include <cmath>

namespace tutti::labs {
namespace {

constexpr int kRepetitions = 12;
constexpr double kLeastTime = 0.98, kMostTime = 1.15;  // of the right time
constexpr double kMostRatio = 4;                       // to the library's best algorithm

struct CallCase {
  const char* name;
  const char* title;
  int points;
  int world_size;
};
constexpr CallCase kCallCases[] = {{"call_two", "call_seconds with two ranks", 10, 2},
                                   {"call_four", "call_seconds with four ranks", 15, 4}};

std::optional<Finding> wrong_time(const CallCase& one, double found, double right, std::uint64_t messages) {
  using namespace diagnosis;
  const double share = found / right;
  const std::string text =
      comm::format("the call takes %.1f us until the last of %d ranks is done, and call_seconds says %.1f us",
                   right * 1e6, one.world_size, found * 1e6);
  if (messages == 0)
    return finding_of(kNotStarted, "call_seconds never calls what it is given", "call(); and two clocks.");
  if (share >= kLeastTime && share <= kMostTime) {
    const auto calls = messages / static_cast<std::uint64_t>(one.world_size - 1);
    if (calls >= static_cast<std::uint64_t>(kRepetitions)) return std::nullopt;
    return finding_of(kNotRepeated, "fewer calls than the " + std::to_string(kRepetitions) + " repetitions wanted",
                      "A single measurement is luck.");
  }
  if (one.world_size > 2 && share > 0.28 && share < 0.36) {
    return finding_of(kOwnTimeOnly, text, "Rank 0 is done long before the others. Who knows when the last one is?");
  }
  if (share < kLeastTime) {
    return finding_of(
        kCallsOverlap, text,
        "A rank that is done begins its next call while others are still in this one. What keeps calls apart?");
  }
  if (share > 1.4 && share < 1.8) {
    return finding_of(
        kFirstCallCounted, text,
        "The first call is slower than all others: connections are made, memory is touched. What belongs to "
        "the time of a call, and which mean does not mind one bad call?");
  }
  return finding_of(kWrongTime, text, "What lies between the two readings of the clock that is not the call?");
}

StageResult call_stage(const CallCase& one, Submission& submission) {
  Case posed;
  posed.world_size = one.world_size;
  posed.root = kRepetitions;
  posed.parameter = 1 << 20;
  const RunResult run =
      submission.run(question_of("call_seconds", posed, {buffer_of<double>("result", {std::nan("")})}));
  std::optional<Finding> finding = incident_of(run, one.title);
  if (!finding) {
    const double hop = posed.network.alpha + static_cast<double>(posed.parameter) * posed.network.beta;
    finding = wrong_time(one, values_of<double>(run.buffers[0][0]).at(0), hop * (one.world_size - 1), run.messages());
  }
  return stage_of(one.name, one.title, one.points, std::move(finding));
}

/// Grades one of the two collectives; its time beside the library's is left in `report`.
void grade_collective(const std::string& function, Submission& submission, const CheckContext& context,
                      Report& report) {
  Lab lab = lab_of({.name = "compare",
                    .title = function,
                    .function = function,
                    .first_step = "Bring your " + function + " from the lab of that name.",
                    .worlds = 15,
                    .counts = 5,
                    .long_messages = 5});
  for (Stage& stage : lab.stages) {
    stage.name = function + "_" + stage.name;
    stage.title = function + ": " + stage.title;
  }
  Report own;
  grade_stages(lab, submission, context.progress, own);
  if (own.failure) {
    report.stages.push_back(stage_of(function, function, 25, own.failure));
    return;
  }
  report.stages.insert(report.stages.end(), own.stages.begin(), own.stages.end());
  for (Measurement measurement : own.measurements) {
    measurement.name = function + "_" + measurement.name;
    report.measurements.push_back(std::move(measurement));
  }
}

double measured(const Report& report, const std::string& name) {
  for (const Measurement& measurement : report.measurements) {
    if (measurement.name == name) return measurement.value;
  }
  return 0;
}

StageResult ratio_stage(const Report& report) {
  const double of_short = measured(report, "all_reduce_ratio_short"),
               of_long = measured(report, "all_reduce_ratio_long");
  const std::string text =
      comm::format("8 ranks: %.1f times the library's time for one number, %.1f times for a MiB", of_short, of_long);
  std::optional<Finding> finding;
  if (of_short > kMostRatio || of_long > kMostRatio) {
    finding = finding_of(diagnosis::kSlowPath, "all_reduce takes, with " + text,
                         "Who waits while the root is busy? The labs reduce and all_reduce have the cost formulas.");
  }
  constexpr char kTitle[] = "all_reduce: at most 4 times the library's time";
  const bool is_measured = of_short > 0 && of_long > 0;
  StageResult result =
      is_measured ? stage_of("ratio", kTitle, 25, std::move(finding)) : stage_not_tried("ratio", kTitle, 25);
  result.note = is_measured ? text : "all_reduce must be right first";
  return result;
}

}  // namespace

Report check_compare(const CheckContext& context) {
  Report report;
  const auto compiled =
      opened(context.folder / "compare.cc", {"reduce", "all_reduce", "call_seconds"}, context.progress, report);
  if (report.failure) return report;
  Submission& submission = *compiled->submission;
  grade_collective("reduce", submission, context, report);
  grade_collective("all_reduce", submission, context, report);
  report.stages.push_back(ratio_stage(report));
  for (const CallCase& one : kCallCases) report.stages.push_back(call_stage(one, submission));
  report.notes.push_back(
      "Graded on a network of the grader's. On this machine, your functions and the library's in turns: "
      "cmake -B build && cmake --build build && tutti run -n 2 -- build/compare");
  return report;
}

}  // namespace tutti::labs
