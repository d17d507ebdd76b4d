// Grading: the stages of a lab, one after the other, on a compiled submission.
//
// A stage's points are given by the share of its cases that are right; cost is all or nothing. Of what cannot work any
// more nothing is tried: after a stage without any right case of several ranks the others are left out, worlds in which
// the function failed are left out of later stages, and whatever the sandbox stopped ends grading.
//
// Blocks; a minute at most on a machine that is not busy, whatever a submission does. Threads: one.
#pragma once

#include <tutti/tools/labs/lab_definition.h>
#include <tutti/tools/labs/sandbox/compile.h>
#include <tutti/tools/labs/session.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tutti::labs {

/// A compiled submission, ready to be run: keeps the processes of each world size between cases.
class Submission {
 public:
  /// `program` must live as long; it is in `workplace`.
  Submission(std::filesystem::path program, const Workplace& workplace);

  RunResult run(const Question& question, RunObserver* observer = nullptr);

  /// What went wrong before the first call, or that `function` is not registered.
  std::optional<Finding> cannot_be_called(const std::string& function);

 private:
  Session& session(int world_size);

  std::filesystem::path program_;
  const Workplace& workplace_;
  std::map<int, std::unique_ptr<Session>> sessions_;
};

/// What became of one case: an incident, or nothing if it was right.
struct CaseResult {
  const Case* posed = nullptr;
  bool was_run = false;
  std::optional<Incident> wrong{};
};

/// What a stage's cases say together; empty if all that were run are right.
std::optional<Finding> conclude(const Stage& stage, const std::string& function,
                                const std::vector<CaseResult>& results);

/// Cost: compares with the bound. `note` becomes the figures of the last case.
std::optional<Finding> judge_cost(const Lab& lab, const Stage& stage, Submission& submission, std::string& note);

/// What was measured of a right solution: its rounds, its bytes, and the library's best on the same network.
std::vector<Measurement> measure(const Lab& lab, Submission& submission);

/// Whether nothing more is to be run of a submission that did this.
bool ends_grading(const std::string& diagnosis);

/// A submission that is compiled, in a folder of its own.
struct Opened {
  Workplace workplace;
  std::unique_ptr<Submission> submission{};
};

/// Compiles `source` and looks for `functions` in it; report.failure says why it cannot be graded. Throws
/// std::runtime_error with what to do if `source` is not there.
std::unique_ptr<Opened> opened(const std::filesystem::path& source, const std::vector<std::string>& functions,
                               const std::function<void(const std::string&)>& progress, Report& report);

/// Runs all stages of `lab`, and adds them to `report`; measures a solution that passes them.
void grade_stages(const Lab& lab, Submission& submission, const std::function<void(const std::string&)>& progress,
                  Report& report);

/// Grades what `context.folder` holds of `lab` by its stages.
Report grade(const Lab& lab, const CheckContext& context);

/// A hint for a diagnosis: where to look, without the answer; empty if there is none.
std::string hint_for(const std::string& diagnosis);

}  // namespace tutti::labs
