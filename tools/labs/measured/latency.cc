// Lab latency: the time of a message, and the line through the times.

#include <tutti/comm/base/format.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/lab_measure.h>
#include <tutti/tools/labs/measured/measured.h>

#include <cmath>

namespace tutti::labs {
namespace {

constexpr double kTimeTolerance = 0.02;
constexpr int kRepetitions = 12;
constexpr double kNoise[] = {0.03, -0.04, 0.02, 0.04, -0.03, -0.02, 0.04, -0.04, 0.03, -0.03, 0.04};

struct TimeCase {
  const char* name;
  const char* title;
  int points;
  int world_size;
  std::size_t bytes;
  double alpha, beta;
  double late;  // rank 1 begins so many seconds later
};

constexpr TimeCase kTimeCases[] = {
    {"short_message", "8 bytes", 15, 2, 8, 10e-6, 1 / 3e9, 0},
    {"long_message", "a MiB", 15, 2, 1 << 20, 10e-6, 1 / 3e9, 0},
    {"other_network", "another network", 10, 2, 4096, 150e-6, 1 / 1e8, 0},
    {"more_ranks", "four ranks, of which two talk", 10, 4, 4096, 10e-6, 1 / 3e9, 0},
    {"late_partner", "rank 1 comes a second later", 10, 2, 4096, 10e-6, 1 / 3e9, 1},
};

std::string microseconds(double seconds) { return comm::format("%.2f us", seconds * 1e6); }

std::optional<Finding> wrong_time(const TimeCase& one, double found, std::uint64_t messages) {
  using namespace diagnosis;
  const double right = one.alpha + static_cast<double>(one.bytes) * one.beta;
  const std::string what = "a message of " + std::to_string(one.bytes) + " bytes takes " + microseconds(right) +
                           " on this network, and message_seconds says " + microseconds(found);
  if (messages == 0) return finding_of(kNotStarted, "message_seconds sends no message", "Begin with one round trip.");
  if (std::isfinite(found) && std::abs(found / right - 1) <= kTimeTolerance) {
    if (messages >= static_cast<std::uint64_t>(kRepetitions)) return std::nullopt;
    return finding_of(kNotRepeated,
                      std::to_string(messages) + " messages for " + std::to_string(kRepetitions) + " repetitions",
                      "A single measurement is luck. `repetitions` says how many are wanted.");
  }
  if (one.late > 0) {
    return finding_of(
        kWaitingCounted, what + ": rank 1 comes a second later, and that is no part of a message's time",
        "What must both ranks have done before the clock starts? Or which mean does not mind one bad trip?");
  }
  if (std::abs(found / right - 2) <= 2 * kTimeTolerance) {
    return finding_of(kRoundTrip, what, "There and back is how many messages?");
  }
  if (found < 0.6 * right) {
    return finding_of(
        kNotTheWholeWay, what,
        "send() may return before the message has arrived. Who knows when it has, and how does the one with "
        "the clock learn of it?");
  }
  return finding_of(kWrongTime, what, "What lies between the two readings of the clock, and how often?");
}

StageResult time_stage(const TimeCase& one, Submission& submission) {
  Case posed;
  posed.world_size = one.world_size;
  posed.root = kRepetitions;
  posed.parameter = one.bytes;
  posed.network.alpha = one.alpha;
  posed.network.beta = one.beta;
  Question question = question_of("message_seconds", posed, {buffer_of<double>("result", {std::nan("")})});
  if (one.late > 0) {
    question.late.assign(static_cast<std::size_t>(one.world_size), {0.0});
    question.late[1] = {one.late};
  }
  const RunResult run = submission.run(question);
  std::optional<Finding> finding = incident_of(run, one.title);
  std::string note;
  if (!finding) {
    const double found = values_of<double>(run.buffers[0][0]).at(0);
    finding = wrong_time(one, found, run.messages());
    note = microseconds(found);
  }
  StageResult result = stage_of(one.name, one.title, one.points, std::move(finding));
  result.note = note;
  return result;
}

enum class Disturbance { None, Noise, Outlier };

std::vector<Sample> samples_of(const Line& truth, Disturbance disturbance) {
  std::vector<Sample> samples;
  int index = 0;
  for (double bytes = 8; bytes <= 8 << 20; bytes *= 4, ++index) {
    double seconds = truth.alpha + truth.beta * bytes;
    if (disturbance == Disturbance::Noise) seconds *= 1 + kNoise[index % 11];
    if (disturbance == Disturbance::Outlier && index == 6) seconds *= 6;
    samples.push_back({bytes, seconds});
  }
  return samples;
}

bool is_near(const Line& found, const Line& truth, double tolerance) {
  return std::abs(found.alpha - truth.alpha) <= tolerance * truth.alpha &&
         std::abs(found.beta - truth.beta) <= tolerance * truth.beta;
}

struct LineCase {
  const char* name;
  const char* title;
  int points;
  Disturbance disturbance;
  double tolerance;
  const char* diagnosis;
  const char* hint;
};

constexpr LineCase kLineCases[] = {
    {"line_exact", "a line through exact times", 15, Disturbance::None, 0.01, diagnosis::kWrongLine,
     "Two unknowns, many equations alpha + beta bytes = seconds. Which line makes the sum of the squared errors "
     "small?"},
    {"line_noise", "times off by up to 4 per cent", 15, Disturbance::Noise, 0.15, diagnosis::kShortIgnored,
     "An error of 1 per cent at 8 MiB is longer than a whole message of 8 bytes. Which errors should be compared?"},
    {"line_outlier", "one disturbed time among them", 10, Disturbance::Outlier, 0.15, diagnosis::kBentLine,
     "A squared error of a point that is far off outweighs all others. Which lines between pairs of points are "
     "typical; or "
     "what if points far from the line count less the next time?"},
};

std::optional<Finding> wrong_line(const LineCase& one, Submission& submission, std::string& note) {
  for (const Line truth : {Line{10e-6, 1 / 3e9}, Line{1.5e-6, 1 / 2e10}}) {
    Case posed;
    posed.world_size = 1;
    const RunResult run = submission.run(question_of(
        "fit", posed,
        {buffer_of("samples", samples_of(truth, one.disturbance), true), buffer_of<double>("line", {0, 0})}));
    if (auto incident = incident_of(run, one.title)) return incident;
    const auto numbers = values_of<double>(run.buffers[0][1]);
    const Line found{numbers.at(0), numbers.at(1)};
    note = comm::format("the times were made with alpha = %.3g s and beta = %.3g s/byte; fit says %.3g and %.3g",
                        truth.alpha, truth.beta, found.alpha, found.beta);
    if (is_near(found, truth, one.tolerance)) continue;
    if (found.alpha == 0 && found.beta == 0) return finding_of(diagnosis::kNotStarted, "fit gives 0 and 0", one.hint);
    if (is_near({found.beta, found.alpha}, truth, one.tolerance)) {
      return finding_of(diagnosis::kSwappedLine, note, "alpha is the time of a message without bytes.");
    }
    return finding_of(one.diagnosis, note, one.hint);
  }
  note.clear();
  return std::nullopt;
}

}  // namespace

Report check_latency(const CheckContext& context) {
  Report report;
  const auto compiled = opened(context.folder / "latency.cc", {"message_seconds", "fit"}, context.progress, report);
  if (report.failure) return report;
  bool goes_on = true;
  for (const TimeCase& one : kTimeCases) {
    if (context.progress) context.progress(one.title);
    StageResult result =
        goes_on ? time_stage(one, *compiled->submission) : stage_not_tried(one.name, one.title, one.points);
    goes_on = goes_on && !(result.finding && (ends_grading(result.finding->diagnosis) ||
                                              result.finding->diagnosis == diagnosis::kNotStarted));
    report.stages.push_back(std::move(result));
  }
  for (const LineCase& one : kLineCases) {
    std::string note;
    auto finding = wrong_line(one, *compiled->submission, note);
    report.stages.push_back(stage_of(one.name, one.title, one.points, std::move(finding)));
  }
  report.notes.push_back(
      "Graded on a network of the grader's, where the right answers are known. For this machine's: "
      "cmake -B build && cmake --build build && tutti run -n 2 -- build/latency");
  return report;
}

}  // namespace tutti::labs
