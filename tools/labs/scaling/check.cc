#include <tutti/tools/labs/answers.h>
#include <tutti/tools/labs/scaling/check.h>
#include <tutti/tools/labs/scaling/measure.h>
#include <tutti/tools/labs/scaling/page.h>
#include <tutti/tools/labs/scaling/questions.h>
#include <tutti/trainer/checkpoint/files.h>

#include <set>
#include <stdexcept>

namespace tutti::labs::scaling {
namespace {

constexpr int kPlanPoints = 20, kQuestionPoints = 10;

Finding finding(const char* diagnosis, std::string text, std::string hint) {
  Finding result;
  result.diagnosis = diagnosis;
  result.text = std::move(text);
  result.hint = std::move(hint);
  return result;
}

StageResult stage(std::string name, std::string title, int of, std::optional<Finding> wrong) {
  StageResult result;
  result.name = std::move(name);
  result.title = std::move(title);
  result.of = of;
  result.points = wrong ? 0 : of;
  result.finding = std::move(wrong);
  return result;
}

/// Exercise 1 asks for three layouts, exercise 3 for four; the model has three coefficients.
std::optional<Finding> judge_plan(const Plan& plan) {
  std::set<int> ranks;
  bool alone = false, threads = false;
  for (const Layout& layout : plan.layouts) {
    ranks.insert(layout.ranks);
    alone = alone || (layout.ranks == 1 && layout.threads == 1 && layout.hosts.empty());
    threads = threads || layout.threads > 1;
  }
  std::string missing;
  if (plan.layouts.size() < 4) missing = "at least four layouts";
  if (missing.empty() && ranks.size() < 3) missing = "at least three different numbers of ranks";
  if (missing.empty() && !alone) missing = "1x1, which the others are compared with";
  if (missing.empty() && !threads) missing = "a layout with more than one thread in a rank";
  if (missing.empty()) return std::nullopt;
  return finding(kFewLayouts, "layouts.txt lacks " + missing, "A line RANKSxTHREADS each, as text.md says.");
}

Results results_for(const Plan& plan, const CheckContext& context, Report& report) {
  const auto file = context.folder / "results.json";
  if (const auto text = read_text(file)) {
    Results results = from_json(*text);
    if (results.plan.text == plan.text) {
      report.notes.push_back("results.json belongs to layouts.txt; delete it to measure again.");
      return results;
    }
  }
  Results results = measure(plan, "/proc/self/exe", context.progress);
  trainer::replace_file(file, to_json(results));
  return results;
}

void grade_questions(const Results& results, const Model& model, const std::filesystem::path& folder, Report& report) {
  const Answers given = read_answers(read_text(folder / "answers.txt").value_or(""));
  for (const Question& question : questions_of(results, model)) {
    const auto found = given.find(question.name);
    std::optional<Finding> wrong;
    if (found == given.end()) {
      wrong = finding(kNoAnswer, "answers.txt has no answer behind '" + question.name + ":'", question.hint);
    } else if (!question.accepts(found->second)) {
      wrong =
          finding(kWrongAnswer, question.name + ": '" + found->second + "' is not what was measured", question.hint);
    }
    report.stages.push_back(stage(question.name, question.title, kQuestionPoints, std::move(wrong)));
  }
}

void add_figures(const Results& results, const Model& model, Report& report) {
  for (const Row& row : results.rows) {
    const Timing run = row.median();
    report.measurements.push_back({"time " + row.layout.name(), run.seconds, "s"});
    report.measurements.push_back({"compute " + row.layout.name(), run.compute, "s"});
    report.measurements.push_back({"waiting " + row.layout.name(), run.waiting, "s"});
  }
  report.measured_on = "this machine";
  report.measurements.push_back({"model fixed", model.fixed, "s"});
  report.measurements.push_back({"model step", model.step * 1e6, "us"});
  report.measurements.push_back({"model round", model.round * 1e6, "us"});
  report.measurements.push_back({"model worst error", 100 * model.worst_error, "%"});
}

}  // namespace

Report check(const CheckContext& context) {
  Report report;
  report.lab = "scaling";
  report.source = context.folder.string();
  Plan plan;
  try {
    plan = read_plan(context.folder / "layouts.txt");
  } catch (const std::runtime_error& error) {
    report.failure = finding(kBadPlan, error.what(), "text.md shows the form of layouts.txt.");
    return report;
  }
  auto few = judge_plan(plan);
  const bool enough = !few;
  report.stages.push_back(stage("layouts", "layouts that can be compared", kPlanPoints, std::move(few)));
  if (!enough) return report;
  try {
    const Results results = results_for(plan, context, report);
    const Model model = fitted(results);
    trainer::replace_file(context.folder / "scaling.html", page_of(results, model));
    report.notes.push_back("The largest layout is " + largest(results).layout.name() +
                           ". Table, curves and model: " + (context.folder / "scaling.html").string());
    add_figures(results, model, report);
    grade_questions(results, model, context.folder, report);
  } catch (const std::exception& error) {
    report.failure = finding(kRunFailed, error.what(), "Try the command by hand: tutti train mnist --nproc 2");
  }
  return report;
}

}  // namespace tutti::labs::scaling
