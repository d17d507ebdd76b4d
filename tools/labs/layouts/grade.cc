#include <tutti/tools/labs/answers.h>
#include <tutti/tools/labs/layouts/grade.h>
#include <tutti/tools/labs/layouts/real_slurm.h>
#include <tutti/tools/labs/layouts/student_answers.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>

namespace tutti::labs::layouts {
namespace {

constexpr int kCommandPoints = 12, kTablePoints = 8, kQuestionPoints = 4;

/// A step and what the exercise wants of it: an empty sentence, or what is not so.
struct Goal {
  std::string table;  // its name in table.txt
  std::string wanted;
  std::function<std::string(const CommandLine&, const Layout&)> missing;
};

struct Part {
  std::string name, title, file;
  bool is_script = false;
  std::vector<Goal> goals;
};

std::map<std::string, int> counts_of(const Layout& layout) {
  std::map<std::string, int> counts;
  for (const Task& task : layout) ++counts[task.node];
  return counts;
}

std::string unless(bool holds, const Layout& layout) {
  return holds ? "" : "it runs " + std::to_string(layout.size()) + " tasks: " + described(layout);
}

bool each_has(const std::map<std::string, int>& counts, std::size_t nodes, int tasks) {
  return counts.size() == nodes &&
         std::all_of(counts.begin(), counts.end(), [&](const auto& entry) { return entry.second == tasks; });
}

std::vector<Part> parts_of(const Cluster& cluster) {
  const std::string first = cluster.nodes[0], second = cluster.nodes[1];
  const Goal a{"a", "exactly one task on each of three nodes",
               [](const CommandLine&, const Layout& all) { return unless(each_has(counts_of(all), 3, 1), all); }};
  const Goal b{"b", "nine tasks on three nodes", [](const CommandLine&, const Layout& all) {
                 return unless(all.size() == 9 && counts_of(all).size() == 3, all);
               }};
  const Goal c{"c", "three tasks on " + first + " and three on " + second,
               [first, second](const CommandLine&, const Layout& all) {
                 auto counts = counts_of(all);
                 return unless(each_has(counts, 2, 3) && counts.count(first) != 0 && counts.count(second) != 0, all);
               }};
  const Goal d1{"d1", "two tasks on each of two nodes",
                [](const CommandLine&, const Layout& all) { return unless(each_has(counts_of(all), 2, 2), all); }};
  const Goal d2{"d2", "srun without parameters", [](const CommandLine& line, const Layout& all) {
                  if (!arguments_of(line.options).empty()) return std::string("the second srun has parameters");
                  return unless(all.size() == 6, all);
                }};
  return {{"a", "one task on each of three nodes", "a.sh", false, {a}},
          {"b", "nine tasks on three nodes", "b.sh", false, {b}},
          {"c", "nodes by name", "c.sh", false, {c}},
          {"d", "two steps of one allocation", "d.sbatch", true, {d1, d2}}};
}

/// What a part's file does; throws LineError and PlacementError.
std::vector<Layout> layouts_of(const Part& part, const Script& script, const Setting& setting) {
  std::vector<Options> steps;
  for (const CommandLine& line : script.steps) steps.push_back(line.options);
  if (setting.is_real) return run_on_slurm(part.is_script ? &script.job : nullptr, steps);
  std::vector<Layout> layouts;
  if (!part.is_script) {
    for (const Options& step : steps) layouts.push_back(place_alone(setting.cluster, step).layout);
    return layouts;
  }
  const Job job = allocate(setting.cluster, script.job);
  for (const CommandLine& line : script.steps) {
    try {
      layouts.push_back(place_step(job, line.options).layout);
    } catch (const PlacementError& error) {
      throw PlacementError("'" + line.text + "': " + error.what());
    }
  }
  return layouts;
}

std::string wrong_job(const Part& part, const Script& script, const Setting& setting) {
  if (!part.is_script) return "";
  const Job job = allocate(setting.cluster, script.job);
  const int tasks = job.options.tasks.value_or(static_cast<int>(job.nodes.size()));
  if (job.nodes.size() == 3 && tasks == 6) return "";
  return "its #SBATCH lines ask for " + std::to_string(job.nodes.size()) + " nodes and " + std::to_string(tasks) +
         " tasks, not for three nodes and six tasks";
}

Finding finding(const char* diagnosis, std::string text, std::string hint) {
  Finding result;
  result.diagnosis = diagnosis;
  result.text = std::move(text);
  result.hint = std::move(hint);
  return result;
}

/// Whether the commands do what is asked; fills `layouts`.
std::optional<Finding> judge_commands(const Part& part, const Setting& setting, const std::filesystem::path& folder,
                                      std::vector<Layout>& layouts) {
  try {
    const Script script = read_script(folder / part.file);
    if (script.steps.empty()) {
      return finding(kNoCommand, part.file + " has no srun line yet", "Write the command below the comment.");
    }
    if (script.steps.size() != part.goals.size()) {
      return finding(kWrongLayout,
                     part.file + " has " + std::to_string(script.steps.size()) + " srun lines; the exercise asks for " +
                         std::to_string(part.goals.size()),
                     "One srun is one step: it starts all its tasks.");
    }
    const std::string job = wrong_job(part, script, setting);
    if (!job.empty())
      return finding(kWrongLayout, part.file + ": " + job, "Read the exercise again: what is asked for?");
    layouts = layouts_of(part, script, setting);
    for (std::size_t i = 0; i < part.goals.size(); ++i) {
      const std::string missing = part.goals[i].missing(script.steps[i], layouts[i]);
      if (missing.empty()) continue;
      return finding(
          kWrongLayout,
          part.file + ": '" + script.steps[i].text + "' should give " + part.goals[i].wanted + "; " + missing,
          "Cores are given to the job first, node by node; then tasks are dealt to these cores. Which option "
          "fixes the number on each node, and where must it stand?");
    }
    return std::nullopt;
  } catch (const LineError& error) {
    return finding(kUnreadable, error.what(), "text.md lists the options that this lab reads.");
  } catch (const PlacementError& error) {
    return finding(kRefusedBySlurm, part.file + ": Slurm would refuse: " + error.what(),
                   "A step inherits from its job what it does not say itself: nodes, tasks, tasks per node.");
  }
}

std::optional<Finding> judge_table(const Goal& goal, const Layout& layout, const Tables& tables) {
  const auto found = tables.find(goal.table);
  if (found == tables.end()) {
    return finding(kNoCommand, "table.txt has no lines for " + goal.table + " yet",
                   "One line for each rank: which node, and which number there.");
  }
  const std::map<int, Task>& rows = found->second;
  if (rows.size() != layout.size()) {
    return finding(kWrongTable,
                   "table.txt has " + std::to_string(rows.size()) + " lines for " + goal.table +
                       "; your command starts another number of tasks",
                   "Every rank from 0 has one line.");
  }
  for (const auto& [rank, task] : rows) {
    if (static_cast<std::size_t>(rank) < layout.size() && layout[static_cast<std::size_t>(rank)] == task) continue;
    return finding(kWrongTable,
                   "table.txt puts rank " + std::to_string(rank) + " of " + goal.table + " on " + task.node +
                       " as local rank " + std::to_string(task.local) + "; your command does not",
                   "How many cores of each node does the job have? By default ranks fill the first node's share before "
                   "the second's, and nodes come in the cluster's order, whatever the order of their names in -w.");
  }
  return std::nullopt;
}

StageResult stage(std::string name, std::string title, int of, std::optional<Finding> finding) {
  StageResult result;
  result.name = std::move(name);
  result.title = std::move(title);
  result.of = of;
  result.points = finding ? 0 : of;
  result.finding = std::move(finding);
  return result;
}

void grade_part(const Part& part, const Setting& setting, const std::filesystem::path& folder, const Tables& tables,
                const std::optional<Finding>& table_error, Report& report) {
  std::vector<Layout> layouts;
  auto wrong = judge_commands(part, setting, folder, layouts);
  report.stages.push_back(stage(part.name + "_command", part.title, kCommandPoints, std::move(wrong)));
  std::optional<Finding> table = table_error;
  for (std::size_t i = 0; i < part.goals.size() && !table && i < layouts.size(); ++i) {
    table = judge_table(part.goals[i], layouts[i], tables);
  }
  StageResult result = stage(part.name + "_table", "its ranks in table.txt", kTablePoints, std::move(table));
  if (layouts.empty()) {
    result.was_run = false;
    result.points = 0;
    result.finding.reset();
  }
  report.stages.push_back(std::move(result));
}

/// The questions of text.md, answered by the model.
std::map<std::string, std::string> right_answers(const Cluster& cluster) {
  const auto options = [](const std::string& text) { return read_srun("srun " + text + " hostname").options; };
  const std::string pair = cluster.nodes[1] + "," + cluster.nodes[0];
  const Layout nine = place_alone(cluster, options("-N 3 -n 9")).layout;
  const Layout named = place_alone(cluster, options("-w " + pair + " -n 2")).layout;
  const Job job = allocate(cluster, options("-N 3 -n 6"));
  const Layout four = place_step(job, options("-N 2 -n 4")).layout;
  return {{"1", std::to_string(counts_of(nine)[cluster.nodes[2]])},
          {"2", named[0].node},
          {"3", "6"},
          {"4", std::to_string(counts_of(four)[cluster.nodes[0]])},
          {"5", "1"}};
}

void grade_questions(const Cluster& cluster, const std::filesystem::path& folder, Report& report) {
  const Answers given = read_answers(read_text(folder / "answers.txt").value_or(""));
  for (const auto& [question, right] : right_answers(cluster)) {
    const auto found = given.find(question);
    std::optional<Finding> wrong;
    if (found == given.end()) {
      wrong =
          finding(kNoCommand, "answers.txt has no answer to question " + question, "The questions are in text.md.");
    } else if (found->second != right) {
      wrong = finding(kWrongAnswer, "the answer to question " + question + " is not '" + found->second + "'",
                      "Go through the two steps of 'How Slurm places tasks' in text.md with these very numbers.");
    }
    report.stages.push_back(stage("question_" + question, "question " + question, kQuestionPoints, std::move(wrong)));
  }
}

}  // namespace

Report check(const CheckContext& context) {
  Report report;
  report.lab = "layouts";
  report.source = context.folder.string();
  try {
    const Setting setting = read_setting(context.folder);
    Tables tables;
    std::optional<Finding> table_error;
    try {
      tables = read_tables(context.folder / "table.txt");
    } catch (const LineError& error) {
      table_error = finding(kWrongTable, error.what(), "The head of table.txt shows the form.");
    }
    for (const Part& part : parts_of(setting.cluster)) {
      if (setting.is_real && context.progress) context.progress("running " + part.file + " under Slurm");
      grade_part(part, setting, context.folder, tables, table_error, report);
    }
    grade_questions(setting.cluster, context.folder, report);
    report.notes.push_back(setting.is_real ? "The commands were run by the Slurm of this host."
                                           : "Judged by a model of Slurm (cons_tres, CR_Core) for the cluster of "
                                             "cluster.txt; with 'slurm: yes' there they are run.");
  } catch (const LineError& error) {
    report.failure =
        finding(kUnreadable, error.what(), "`tutti lab start layouts` writes a fresh folder to compare with.");
  }
  return report;
}

}  // namespace tutti::labs::layouts
