#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/embedded.h>
#include <tutti/tools/labs/grade.h>
#include <tutti/tools/labs/tasks/task.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace tutti::labs {
namespace {

using std::chrono::steady_clock;

constexpr int kMostLoops = 3;                         // endless ones: each costs its seconds
constexpr auto kMostTime = std::chrono::seconds(40);  // for stages; what is left is not tried (not for right solutions)

StageResult not_tried(const Stage& stage) { return stage_not_tried(stage.name, stage.title, stage.points); }

class Grader {
 public:
  Grader(const Lab& lab, Submission& submission, const std::function<void(const std::string&)>& progress)
      : lab_(lab), submission_(submission), progress_(progress) {}

  // Nothing is sent, and nothing is written, with two ranks and with three.
  bool is_not_started() {
    for (const int world_size : {2, 3}) {
      Case posed;
      posed.world_size = world_size;
      if (!lab_.stages.empty() && !lab_.stages[0].cases.empty()) {
        posed.counts = lab_.stages[0].cases[0].counts;
        posed.parameter = lab_.stages[0].cases[0].parameter;
      }
      const Question question = pose(lab_.function, posed, false);
      const RunResult result = submission_.run(question);
      loops_ += result.first_wrong() != nullptr && result.first_wrong()->diagnosis == diagnosis::kEndlessLoop;
      if (result.first_wrong() != nullptr || result.messages() > 0) return false;
      for (std::size_t rank = 0; rank < question.buffers.size(); ++rank) {
        for (std::size_t b = 0; b < question.buffers[rank].size(); ++b) {
          if (question.buffers[rank][b].bytes != result.buffers[rank][b]) return false;
        }
      }
    }
    return true;
  }

  StageResult run(const Stage& stage) {
    if (is_over_) return not_tried(stage);
    StageResult result{stage.name, stage.title, 0, stage.points, true, {}, ""};
    if (progress_) progress_(stage.title);
    if (stage.axis == Axis::Cost) {
      run_cost(stage, result);
    } else {
      run_cases(stage, result);
    }
    if (result.finding) result.finding->hint = hint_for(result.finding->diagnosis);
    return result;
  }

 private:
  CaseResult run_case(const Case& posed) {
    CaseResult result{&posed, true, {}};
    const Question question = pose(lab_.function, posed, false);
    RunResult run = submission_.run(question);
    if (run.first_wrong() != nullptr) {
      result.wrong = *run.first_wrong();
    } else {
      result.wrong = judge(question, run);
    }
    if (result.wrong && !run.output.empty()) last_output_ = run.output;
    return result;
  }

  void run_cases(const Stage& stage, StageResult& result) {
    std::vector<CaseResult> results;
    int right = 0, tried = 0;
    for (const Case& posed : stage.cases) {
      const bool skip = is_over_ || (only_root_0_ && posed.root != 0) ||
                        (stage.axis != Axis::Worlds && failed_worlds_.contains(posed.world_size));
      results.push_back(skip ? CaseResult{&posed, false, {}} : run_case(posed));
      const CaseResult& one = results.back();
      if (!one.was_run) continue;
      ++tried;
      right += one.wrong ? 0 : 1;
      if (one.wrong && stage.axis == Axis::Worlds) failed_worlds_.insert(posed.world_size);
      if (one.wrong) take_notice(one.wrong->diagnosis);
    }
    const auto cases = static_cast<int>(stage.cases.size());
    result.was_run = tried > 0;
    result.points = cases == 0 ? 0 : stage.points * right / cases;
    result.finding = conclude(stage, lab_.function, results);
    only_root_0_ = only_root_0_ || (result.finding && result.finding->diagnosis == diagnosis::kWrongRoot);
    if (stage.axis != Axis::Worlds) {
      if (result.was_run && tried < cases) {
        result.note = counted(static_cast<std::size_t>(cases - tried), "case") +
                      " left out: " + (only_root_0_ ? "other roots fail above" : "those worlds fail above");
      }
      return;
    }
    const bool some = std::any_of(results.begin(), results.end(), [](const CaseResult& one) {
      return one.was_run && !one.wrong && one.posed->world_size > 1;
    });
    if (!some) is_over_ = true;
  }

  void run_cost(const Stage& stage, StageResult& result) {
    Stage tried = stage;
    std::erase_if(tried.cases, [&](const Case& posed) { return failed_worlds_.contains(posed.world_size); });
    if (tried.cases.empty()) {
      result.was_run = false;
      return;
    }
    result.finding = judge_cost(lab_, tried, submission_, result.note);
    // What is cheap because it leaves something out has not earned anything.
    const bool complete = tried.cases.size() == stage.cases.size();
    if (!result.finding && complete) result.points = stage.points;
    if (!result.finding && !complete) result.note += "; counts when it works for all numbers of ranks";
  }

  void take_notice(const std::string& found) {
    if (found == diagnosis::kEndlessLoop) {
      is_over_ = ++loops_ >= kMostLoops;
    } else if (ends_grading(found)) {
      is_over_ = true;
    }
    if (steady_clock::now() - begin_ > kMostTime) is_over_ = true;
  }

  const Lab& lab_;
  Submission& submission_;
  const std::function<void(const std::string&)>& progress_;
  std::set<int> failed_worlds_;
  bool only_root_0_ = false;  // all others fail
  bool is_over_ = false;
  int loops_ = 0;
  std::string last_output_;
  steady_clock::time_point begin_ = steady_clock::now();

 public:
  const std::string& last_output() const { return last_output_; }
};

Finding not_started(const Lab& lab) {
  return {diagnosis::kNotStarted,
          lab.function +
              "() does nothing yet: no rank has sent a message, and what it was given is as it was before. "
              "That is where everybody begins.",
          lab.first_step, "", ""};
}

}  // namespace

Submission::Submission(std::filesystem::path program, const Workplace& workplace)
    : program_(std::move(program)), workplace_(workplace) {}

Session& Submission::session(int world_size) {
  std::unique_ptr<Session>& kept = sessions_[world_size];
  if (kept == nullptr || !kept->is_usable()) {
    kept = nullptr;  // first away with the old processes
    kept = std::make_unique<Session>(program_, workplace_.empty_folder(), world_size);
  }
  return *kept;
}

RunResult Submission::run(const Question& question, RunObserver* observer) {
  return session(question.posed.world_size).run(question, observer);
}

std::optional<Finding> Submission::cannot_be_called(const std::string& function) {
  const std::vector<std::string> names = session(1).functions();
  if (!sessions_[1]->is_usable()) {
    Question nothing;
    nothing.posed.world_size = 1;
    nothing.buffers.resize(1);
    const RunResult result = sessions_[1]->run(nothing);
    if (result.incident)
      return Finding{result.incident->diagnosis, result.incident->text, "", "", "before the first call"};
  }
  if (std::find(names.begin(), names.end(), function) != names.end()) return std::nullopt;
  std::string macro = function;
  std::transform(macro.begin(), macro.end(), macro.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return Finding{diagnosis::kNotRegistered,
                 "the grader finds no " + function + "(): the last line of the skeleton, TUTTI_LAB_" + macro + "(" +
                     function + "), is what names it",
                 "", "", ""};
}

// hints.json, by diagnosis.
std::string hint_for(const std::string& diagnosis) {
  static const auto hints = nlohmann::json::parse(hint_files()[0].text);
  return hints.value(diagnosis, "");
}

std::unique_ptr<Opened> opened(const std::filesystem::path& source, const std::vector<std::string>& functions,
                               const std::function<void(const std::string&)>& progress, Report& report) {
  if (!std::filesystem::is_regular_file(source)) {
    throw std::runtime_error("there is no " + source.string() + ": write the skeleton with 'tutti lab start " +
                             source.stem().string() + " " + source.parent_path().string() +
                             "', or name the folder that has it");
  }
  report.source = source.string();
  if (progress) progress("compiling");
  auto result = std::make_unique<Opened>();
  const Compiled compiled = compile(source, result->workplace);
  if (!compiled.is_good) {
    report.failure = finding_of(diagnosis::kDoesNotCompile, compiled.reason, hint_for(diagnosis::kDoesNotCompile));
    report.notes.push_back(compiled.messages);
    return result;
  }
  result->submission = std::make_unique<Submission>(compiled.program, result->workplace);
  for (const std::string& function : functions) {
    if (!report.failure) report.failure = result->submission->cannot_be_called(function);
  }
  if (report.failure) report.failure->hint = hint_for(report.failure->diagnosis);
  return result;
}

void grade_stages(const Lab& lab, Submission& submission, const std::function<void(const std::string&)>& progress,
                  Report& report) {
  Grader grader(lab, submission, progress);
  if (grader.is_not_started()) report.failure = not_started(lab);
  for (const Stage& stage : lab.stages) {
    report.stages.push_back(report.failure ? not_tried(stage) : grader.run(stage));
  }
  if (!grader.last_output().empty()) report.notes.push_back("It wrote: " + grader.last_output());
  if (report.passed()) report.measurements = measure(lab, submission);
}

Report grade(const Lab& lab, const CheckContext& context) {
  Report report;
  const auto opened_now = opened(context.folder / (lab.name + ".cc"), {lab.function}, context.progress, report);
  if (!report.failure) {
    grade_stages(lab, *opened_now->submission, context.progress, report);
  } else {
    for (const Stage& stage : lab.stages) report.stages.push_back(not_tried(stage));
  }
  return report;
}

}  // namespace tutti::labs
