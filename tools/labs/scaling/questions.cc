#include <tutti/tools/labs/answers.h>
#include <tutti/tools/labs/scaling/questions.h>

#include <algorithm>
#include <cmath>

namespace tutti::labs::scaling {
namespace {

constexpr double kRelative = 0.03;  // of a number read off the table
constexpr double kPoints = 2;       // per cent points
constexpr double kAsFast = 1.03;    // layouts within this of the fastest are as fast
constexpr int kForeseenRanks = 8;

std::vector<std::string> fastest_names(const Results& results) {
  double least = results.rows[0].median().seconds;
  for (const Row& row : results.rows) least = std::min(least, row.median().seconds);
  std::vector<std::string> names;
  for (const Row& row : results.rows) {
    if (row.median().seconds <= least * kAsFast) names.push_back(row.layout.name());
  }
  return names;
}

/// Which of the three parts lies furthest above what perfect division of the first layout's would give. All that come
/// near it are right, too.
std::vector<std::string> obstacles(const Timing& first, const Timing& last, double factor) {
  const double over[] = {last.compute - first.compute / factor, last.waiting - first.waiting / factor,
                         last.rest() - first.rest() / factor};
  const char* names[] = {"compute", "waiting", "rest"};
  const double most = *std::max_element(std::begin(over), std::end(over));
  std::vector<std::string> right;
  for (int i = 0; i < 3; ++i) {
    if (over[i] >= most - std::max(std::abs(most) * 0.1, 0.01 * last.seconds)) right.emplace_back(names[i]);
  }
  return right;
}

Question numeric(std::string name, std::string title, std::string hint, double number, double tolerance) {
  return {std::move(name), std::move(title), std::move(hint), {}, number, tolerance};
}

}  // namespace

bool Question::accepts(const std::string& answer) const {
  if (!right.empty()) return std::find(right.begin(), right.end(), answer) != right.end();
  const auto given = number_of(answer);
  return given && std::abs(*given - number) <= tolerance;
}

const Row& largest(const Results& results) {
  return *std::max_element(results.rows.begin(), results.rows.end(),
                           [](const Row& a, const Row& b) { return a.layout.ranks < b.layout.ranks; });
}

std::vector<Question> questions_of(const Results& results, const Model& model) {
  const Row& first_row = results.rows.front();
  const Row& last_row = largest(results);
  const Timing first = first_row.median(), last = last_row.median();
  const double speedup = first.seconds / last.seconds;
  const double cores = static_cast<double>(last_row.layout.ranks * last_row.layout.threads) /
                       (first_row.layout.ranks * first_row.layout.threads);
  const double factor = static_cast<double>(last_row.layout.ranks) / first_row.layout.ranks;
  const Layout foreseen{.ranks = kForeseenRanks};
  const Features eight = features_of(foreseen, steps_with(results, kForeseenRanks), kForeseenRanks);
  const double steps = static_cast<double>(last.steps) / results.plan.epochs;
  std::vector<Question> all;
  all.push_back({"fastest", "the fastest layout", "Compare the medians.", fastest_names(results), 0, 0});
  all.push_back(numeric("speedup", "speed-up of the largest layout",
                        "Time of the first layout, divided by that of the largest.", speedup, kRelative * speedup));
  all.push_back(numeric("efficiency", "its efficiency in per cent",
                        "Speed-up, divided by how many times more threads it has in all.", 100 * speedup / cores,
                        kPoints + kRelative * 100 * speedup / cores));
  all.push_back(numeric("steps", "its steps in one epoch",
                        "The samples are dealt to the ranks; each takes its share in batches, the last one smaller.",
                        steps, 0.5));
  all.push_back(numeric("waiting", "its share of waiting in per cent",
                        "Waiting, divided by the whole time, in the row of that layout.",
                        100 * last.waiting / last.seconds, kPoints));
  all.push_back(
      {"obstacle", "what keeps it from the ideal",
       "Divide each part of the first layout by how many times more ranks there are: which part of the largest "
       "layout lies furthest above that?",
       obstacles(first, last, factor), 0, 0});
  all.push_back(numeric("limit", "the shortest time that the model allows",
                        "Which term of the model stays when there are cores without end, and messages cost nothing?",
                        model.fixed, std::max(kRelative * model.fixed, 0.02)));
  const double eight_seconds = model.seconds(eight);
  all.push_back(numeric("eight", "the model's time for 8x1 on 8 cores",
                        "Steps for 8 ranks; a core for each, so work = steps; rounds = 3 x steps.", eight_seconds,
                        std::max(kRelative * eight_seconds, 0.02)));
  return all;
}

}  // namespace tutti::labs::scaling
