#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/sections.h>

#include <algorithm>
#include <numeric>

namespace tutti::trainer::page {
namespace {

constexpr std::size_t kMostClasses = 100;  // a table of 10,000 cells is the most that a page shows well
constexpr std::size_t kMistakesListed = 5;

std::string class_name(const RunReport& report, std::size_t label) {
  return label < report.class_names.size() ? report.class_names[label] : std::to_string(label);
}

std::string cell(const RunReport& report, std::size_t actual, std::size_t predicted, double row_total) {
  const std::int64_t count = report.confusion_matrix[actual][predicted];
  const double share = row_total > 0 ? static_cast<double>(count) / row_total : 0;
  const bool is_right = actual == predicted;
  // Mistakes are rare: their colour deepens four times as fast.
  const double depth = is_right ? share : std::min(1.0, 4 * share);
  const std::string title = escaped(class_name(report, actual)) + " taken for " +
                            escaped(class_name(report, predicted)) + ": " + with_commas(count) + " (" + percent(share) +
                            ")";
  std::string classes = is_right ? "right" : "wrong";
  if (depth > 0.55) classes += " deep";
  if (count == 0) classes += " none";
  return "<td class=\"" + classes + "\" style=\"--d:" + coordinate(depth) + "\" title=\"" + title + "\">" +
         std::to_string(count) + "</td>";
}

std::string matrix_table(const RunReport& report) {
  const std::size_t classes = report.confusion_matrix.size();
  const bool has_names = !report.class_names.empty();
  std::string html = "<div class=\"scroll\"><table class=\"confusion" + std::string(classes > 12 ? " small" : "") +
                     "\"><caption>rows: actual class, columns: predicted class</caption><tr><td></td>";
  for (std::size_t i = 0; i < classes; ++i) {
    html += "<th scope=\"col\" title=\"" + escaped(class_name(report, i)) + "\">" + std::to_string(i) + "</th>";
  }
  html += "<th scope=\"col\" class=\"share\">right</th></tr>";
  for (std::size_t i = 0; i < classes; ++i) {
    const auto& row = report.confusion_matrix[i];
    const auto total = static_cast<double>(std::accumulate(row.begin(), row.end(), std::int64_t{0}));
    html += "<tr><th scope=\"row\">" + (has_names ? escaped(class_name(report, i)) + " " : std::string()) +
            std::to_string(i) + "</th>";
    for (std::size_t j = 0; j < classes; ++j) html += cell(report, i, j, total);
    html += "<td class=\"share\">" + (total > 0 ? percent(static_cast<double>(row[i]) / total) : "") + "</td></tr>";
  }
  return html + "</table></div>";
}

struct Mistake {
  std::size_t actual = 0, predicted = 0;
  std::int64_t count = 0;
};

std::string mistakes(const RunReport& report) {
  std::vector<Mistake> list;
  const std::size_t classes = report.confusion_matrix.size();
  for (std::size_t i = 0; i < classes; ++i) {
    for (std::size_t j = 0; j < classes; ++j) {
      if (i != j && report.confusion_matrix[i][j] > 0) list.push_back({i, j, report.confusion_matrix[i][j]});
    }
  }
  if (list.empty()) return "<p>No test sample was taken for another class.</p>";
  std::stable_sort(list.begin(), list.end(), [](const Mistake& a, const Mistake& b) { return a.count > b.count; });
  std::string text = "<p>Most frequent mistakes: ";
  for (std::size_t k = 0; k < std::min(kMistakesListed, list.size()); ++k) {
    text += std::string(k > 0 ? "; " : "") + "<b>" + escaped(class_name(report, list[k].actual)) +
            "</b> taken for <b>" + escaped(class_name(report, list[k].predicted)) + "</b> " +
            with_commas(list[k].count) + " times";
  }
  return text + ".</p>";
}

}  // namespace

std::string confusion_section(const RunData& run) {
  const auto& matrix = run.report.confusion_matrix;
  if (matrix.empty()) {
    return section("confusion", "Confusion matrix",
                   absent(run.finished ? "The model does not classify, so there is none."
                                       : "It is counted at the end of a run, which this one has not reached."));
  }
  const std::string body = matrix.size() > kMostClasses
                               ? absent("There are " + with_commas(static_cast<std::int64_t>(matrix.size())) +
                                        " classes; report.json has the whole matrix.")
                               : matrix_table(run.report);
  return section("confusion", "Confusion matrix", body + mistakes(run.report));
}

}  // namespace tutti::trainer::page
