#include <tutti/tools/labs/answers.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/layouts/commands.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace tutti::labs::layouts {
namespace {

using namespace diagnosis;

constexpr int kCommandPoints = 12, kTablePoints = 8;

/// The exercise's cluster: four nodes of four cores, which slurm.txt calls n1 to n4.
const std::vector<std::string> kNodes{"arnold", "bruce", "chuck", "dolph"};

struct Task {
  std::string node{};
  int local = 0;  // SLURM_LOCALID
  friend bool operator==(const Task&, const Task&) = default;
};
using Layout = std::vector<Task>;  // by rank

/// slurm.txt: what Slurm makes of the options of a job and of a step in it (lines "JOB | STEP | 1112": the number of
/// each rank's node; or "JOB | STEP | error WORDS"). Without a job: srun by itself.
class SlurmTable {
 public:
  SlurmTable() {
    std::istringstream in{std::string(answer_table("layouts", "slurm.txt"))};
    for (std::string line; std::getline(in, line);) {
      const std::size_t first = line.find('|'), second = line.find('|', first + 1);
      if (line[0] == '#' || second == std::string::npos) continue;
      std::istringstream words(line.substr(second + 1));
      std::string said;
      std::getline(words >> std::ws, said);
      said_[{canonical(line.substr(0, first)), canonical(line.substr(first + 1, second - first - 1))}] = said;
    }
  }

  /// Throws LineError for what is not in the table, and Refused for what Slurm refuses. `text` is the command, for
  /// these.
  Layout layout_of(const std::string& job, const std::string& step, const std::string& text) const {
    const auto found = said_.find({job, numbered(step)});
    if (found == said_.end()) {
      throw LineError("what '" + text + "' does" + (job.empty() ? "" : " in a job of '" + job + "'") +
                      " is not in this lab's table; the exercise can be done with -N, -n, --ntasks-per-node and -w");
    }
    if (found->second.rfind("error", 0) == 0) throw Refused("'" + text + "':" + found->second.substr(5));
    Layout layout;
    std::map<char, int> count;
    for (const char digit : found->second) {
      layout.push_back({kNodes.at(static_cast<std::size_t>(digit - '1')), count[digit]++});
    }
    return layout;
  }

  struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

 private:
  /// With the table's names of nodes.
  static std::string numbered(std::string options) {
    for (std::size_t i = 0; i < kNodes.size(); ++i) {
      const std::size_t at = options.find(kNodes[i]);
      if (at != std::string::npos) options.replace(at, kNodes[i].size(), "n" + std::to_string(i + 1));
    }
    return options;
  }

  std::map<std::pair<std::string, std::string>, std::string> said_;
};

std::map<std::string, int> counts_of(const Layout& layout) {
  std::map<std::string, int> counts;
  for (const Task& task : layout) ++counts[task.node];
  return counts;
}

/// "3 on arnold, 3 on bruce".
std::string described(const Layout& layout) {
  std::string text;
  for (const auto& [node, count] : counts_of(layout)) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " on " + node;
  }
  return text;
}

/// What the exercise wants of a step.
struct Goal {
  const char* table;  // its name in table.txt
  const char* wanted;
  std::size_t nodes, tasks;
  bool is_even = false;          // the same number on each node
  bool is_on_first_two = false;  // on arnold and bruce
  bool is_bare = false;          // without options
};

struct Part {
  const char* name;
  const char* title;
  const char* file;
  std::vector<Goal> goals;
};

const std::vector<Part>& parts() {
  static const std::vector<Part> all = {
      {"a",
       "one task on each of three nodes",
       "a.sh",
       {{.table = "a", .wanted = "exactly one task on each of three nodes", .nodes = 3, .tasks = 3, .is_even = true}}},
      {"b",
       "nine tasks on three nodes",
       "b.sh",
       {{.table = "b", .wanted = "nine tasks on three nodes", .nodes = 3, .tasks = 9}}},
      {"c",
       "nodes by name",
       "c.sh",
       {{.table = "c",
         .wanted = "three tasks on arnold and three on bruce",
         .nodes = 2,
         .tasks = 6,
         .is_even = true,
         .is_on_first_two = true}}},
      {"d",
       "two steps of one allocation",
       "d.sbatch",
       {{.table = "d1", .wanted = "two tasks on each of two nodes", .nodes = 2, .tasks = 4, .is_even = true},
        {.table = "d2", .wanted = "srun without parameters", .nodes = 3, .tasks = 6, .is_bare = true}}},
  };
  return all;
}

/// What is not as the goal wants it; empty if nothing is.
std::string missing(const Goal& goal, const Step& step, const Layout& layout) {
  if (goal.is_bare && !step.options.empty()) return "the second srun has parameters";
  const auto counts = counts_of(layout);
  const int each = static_cast<int>(goal.tasks / goal.nodes);
  bool holds = layout.size() == goal.tasks && counts.size() == goal.nodes;
  if (goal.is_even)
    holds = holds && std::all_of(counts.begin(), counts.end(), [&](auto& one) { return one.second == each; });
  if (goal.is_on_first_two) holds = holds && counts.contains(kNodes[0]) && counts.contains(kNodes[1]);
  return holds ? "" : "it runs " + std::to_string(layout.size()) + " tasks: " + described(layout);
}

Finding wrong_layout(const std::string& text, const char* hint) { return finding_of(kWrongLayout, text, hint); }

/// Whether the commands do what is asked; fills `layouts`.
std::optional<Finding> judge_commands(const Part& part, const SlurmTable& slurm, const std::filesystem::path& folder,
                                      std::vector<Layout>& layouts) {
  const std::string file = part.file;
  try {
    const Script script = read_script(folder / file);
    if (script.steps.empty()) {
      return finding_of(kNotStarted, file + " has no srun line yet", "Write the command below the comment.");
    }
    if (script.steps.size() != part.goals.size()) {
      return wrong_layout(file + " has " + std::to_string(script.steps.size()) + " srun lines; the exercise asks for " +
                              std::to_string(part.goals.size()),
                          "One srun is one step: it starts all its tasks.");
    }
    if (file == "d.sbatch") {
      const Layout whole = script.job.empty() ? Layout{} : slurm.layout_of(script.job, "", "srun");
      if (whole.size() != 6 || counts_of(whole).size() != 3) {
        return wrong_layout(
            file + ": its #SBATCH lines ask for '" + script.job + "', which is not three nodes and six tasks",
            "Read the exercise again: what is asked for?");
      }
    }
    for (const Step& step : script.steps) layouts.push_back(slurm.layout_of(script.job, step.options, step.text));
    for (std::size_t i = 0; i < part.goals.size(); ++i) {
      const Step& step = script.steps[i];
      const std::string wrong = missing(part.goals[i], step, layouts[i]);
      if (wrong.empty()) continue;
      return wrong_layout(
          file + ": '" + step.text + "' should give " + part.goals[i].wanted + "; " + wrong,
          "Cores are given to the job first, node by node; then tasks are dealt to these cores. Which option fixes the "
          "number on each node, and where must it stand?");
    }
    return std::nullopt;
  } catch (const LineError& error) {
    return finding_of(kNotUnderstood, error.what(), "text.md lists the options that this lab reads.");
  } catch (const SlurmTable::Refused& error) {
    return finding_of(kRefusedBySlurm, file + ": Slurm refuses " + error.what(),
                      "A step inherits from its job what it does not say itself: nodes, tasks, tasks per node.");
  }
}

/// table.txt: lines "a 0 arnold 0" (exercise, rank, node, local rank), by exercise and rank.
using Tables = std::map<std::string, std::map<int, Task>>;

Tables read_tables(const std::filesystem::path& file) {
  Tables tables;
  std::istringstream in(read_text(file).value_or(""));
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::string where = "table.txt, line " + std::to_string(number) + ": ";
    std::istringstream words(line.substr(0, line.find('#')));
    std::string exercise, extra;
    int rank = 0;
    Task task;
    if (!(words >> exercise)) continue;
    if (!(words >> rank >> task.node >> task.local) || words >> extra || rank < 0) {
      throw LineError(where + "a line is EXERCISE RANK NODE LOCAL_RANK, as in 'a 0 arnold 0'; found '" + line + "'");
    }
    if (!tables[exercise].emplace(rank, task).second) {
      throw LineError(where + "rank " + std::to_string(rank) + " of " + exercise + " has a line already");
    }
  }
  return tables;
}

std::optional<Finding> judge_table(const std::string& name, const Layout& layout, const Tables& tables) {
  const auto found = tables.find(name);
  if (found == tables.end()) {
    return finding_of(kNotStarted, "table.txt has no lines for " + name + " yet",
                      "One line for each rank: which node, and which number there.");
  }
  const std::map<int, Task>& rows = found->second;
  if (rows.size() != layout.size()) {
    return finding_of(kWrongTable,
                      "table.txt has " + std::to_string(rows.size()) + " lines for " + name +
                          "; your command starts another number of tasks",
                      "Every rank from 0 has one line.");
  }
  for (const auto& [rank, task] : rows) {
    if (static_cast<std::size_t>(rank) < layout.size() && layout[static_cast<std::size_t>(rank)] == task) continue;
    return finding_of(
        kWrongTable,
        "table.txt puts rank " + std::to_string(rank) + " of " + name + " on " + task.node + " as local rank " +
            std::to_string(task.local) + "; your command does not",
        "How many cores of each node does the job have? By default ranks fill the first node's share "
        "before the second's, and nodes come in the cluster's order, whatever the order of their names in "
        "-w.");
  }
  return std::nullopt;
}

void grade_part(const Part& part, const SlurmTable& slurm, const CheckContext& context, Report& report) {
  std::vector<Layout> layouts;
  auto wrong = judge_commands(part, slurm, context.folder, layouts);
  const bool is_readable = layouts.size() == part.goals.size();
  report.stages.push_back(stage_of(part.name + std::string("_command"), part.title, kCommandPoints, std::move(wrong)));
  std::optional<Finding> table;
  try {
    const Tables tables = read_tables(context.folder / "table.txt");
    for (std::size_t i = 0; i < part.goals.size() && is_readable && !table; ++i) {
      table = judge_table(part.goals[i].table, layouts[i], tables);
    }
  } catch (const LineError& error) {
    table = finding_of(kWrongTable, error.what(), "The head of table.txt shows the form.");
  }
  const std::string name = part.name + std::string("_table"), title = "its ranks in table.txt";
  report.stages.push_back(is_readable ? stage_of(name, title, kTablePoints, std::move(table))
                                      : stage_not_tried(name, title, kTablePoints));
}

}  // namespace

Report check(const CheckContext& context) {
  Report report;
  const SlurmTable slurm;
  for (const Part& part : parts()) grade_part(part, slurm, context, report);
  grade_answers(context, report);
  report.notes.push_back("Judged by what Slurm 22.05 (cons_tres, CR_Core) did on a cluster of this kind.");
  return report;
}

}  // namespace tutti::labs::layouts
