#include <tutti/comm/base/format.h>
#include <tutti/tools/labs/report.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>
#include <utility>

namespace tutti::labs {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kColumns = 100;

// Words in lines of kColumns, each behind `indent`; lines of `text` stay apart.
std::string wrapped(const std::string& text, const std::string& indent) {
  std::string result;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    while (line.size() + indent.size() > kColumns) {
      const std::size_t cut = line.rfind(' ', kColumns - indent.size());
      if (cut == std::string::npos || cut == 0) break;
      result += indent + line.substr(0, cut) + "\n";
      line.erase(0, cut + 1);
    }
    result += indent + line + "\n";
  }
  return result;
}

void print_finding(std::ostream& out, const Finding& finding, const std::string& indent) {
  std::string text = finding.text;
  if (!finding.failed_case.empty()) text += " (" + finding.failed_case + ")";
  out << wrapped(printable(text), indent);
  if (!finding.hint.empty()) out << wrapped("Hint: " + finding.hint, indent);
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json json_of(const Finding& finding) {
  return {{"diagnosis", text_or_null(finding.diagnosis)},
          {"evidence", text_or_null(finding.evidence)},
          {"text", text_or_null(printable(finding.text))},
          {"hint", text_or_null(finding.hint)},
          {"case", text_or_null(finding.failed_case)}};
}

Json json_of(const StageResult& stage) {
  Json row = {{"name", stage.name},
              {"title", stage.title},
              {"points", stage.points},
              {"of", stage.of},
              {"was_run", stage.was_run}};
  row.update(json_of(stage.finding.value_or(Finding{})));
  row["note"] = text_or_null(stage.note);
  return row;
}

std::string figure(double value) { return comm::format("%.4g", value); }

}  // namespace

Finding finding_of(std::string diagnosis, std::string text, std::string hint) {
  Finding finding;
  finding.diagnosis = std::move(diagnosis);
  finding.text = std::move(text);
  finding.hint = std::move(hint);
  return finding;
}

StageResult stage_of(std::string name, std::string title, int points, std::optional<Finding> finding) {
  StageResult result;
  result.name = std::move(name);
  result.title = std::move(title);
  result.of = points;
  result.points = finding ? 0 : points;
  result.finding = std::move(finding);
  return result;
}

StageResult stage_not_tried(std::string name, std::string title, int points) {
  return {std::move(name), std::move(title), 0, points, false, {}, ""};
}

int Report::points() const {
  return std::accumulate(stages.begin(), stages.end(), 0, [](int sum, auto& stage) { return sum + stage.points; });
}

int Report::of() const {
  return std::accumulate(stages.begin(), stages.end(), 0, [](int sum, auto& stage) { return sum + stage.of; });
}

bool Report::passed() const { return !failure && points() == of(); }

const Finding* Report::first_finding() const {
  if (failure) return &*failure;
  for (const StageResult& stage : stages) {
    if (stage.finding) return &*stage.finding;
  }
  return nullptr;
}

std::string printable(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F && byte < 0x80) {
      result += c;
    } else if (c == '\n') {
      result += c;
    } else if (c == '\t') {
      result += "  ";
    } else {
      result += comm::format("\\x%02X", byte);
    }
  }
  return result;
}

void print(std::ostream& out, const Report& report) {
  out << "Lab " << report.lab << ", " << printable(report.source) << "\n\n";
  if (report.failure) print_finding(out, *report.failure, "  ");
  bool told = report.failure.has_value();
  for (const StageResult& stage : report.stages) {
    if (report.failure) break;
    out << "  " << comm::format("%3d / %-3d ", stage.points, stage.of) << stage.title;
    if (!stage.was_run) out << " (not tried)";
    out << "\n";
    if (stage.finding) {
      print_finding(out, *stage.finding, "            ");
      told = true;
    }
    if (!stage.note.empty()) out << wrapped(printable(stage.note), "            ");
  }
  for (const std::string& note : report.notes) out << "\n" << wrapped(printable(note), "  ");
  if (!report.measurements.empty()) {
    out << "\n  Measured on " << report.measured_on << ":\n";
    for (const Measurement& one : report.measurements) {
      out << "    " << one.name << " " << figure(one.value) << (one.unit.empty() ? "" : " " + one.unit) << "\n";
    }
  }
  out << "\n"
      << report.points() << " of " << report.of() << " points" << (report.passed() ? ": all of them" : "") << ", after "
      << figure(std::round(report.seconds * 10) / 10) << " s.\n";
  if (told && !report.failure) out << "The first thing that is wrong is the best to look at first.\n";
}

std::string json_of(const Report& report) {
  Json stages = Json::array();
  for (const StageResult& stage : report.stages) stages.push_back(json_of(stage));
  Json measurements = Json::array();
  for (const Measurement& one : report.measurements) {
    measurements.push_back({{"name", one.name},
                            {"value", std::isfinite(one.value) ? Json(one.value) : Json(nullptr)},
                            {"unit", text_or_null(one.unit)}});
  }
  Json notes = Json::array();
  for (const std::string& note : report.notes) notes.push_back(printable(note));
  const Finding* first = report.first_finding();
  const Json whole = {{"lab", report.lab},
                      {"source", printable(report.source)},
                      {"passed", report.passed()},
                      {"score", report.points()},
                      {"max_score", report.of()},
                      {"diagnosis", first == nullptr ? Json(nullptr) : Json(first->diagnosis)},
                      {"finding", first == nullptr ? Json(nullptr) : json_of(*first)},
                      {"stages", stages},
                      {"measurements", measurements},
                      {"notes", notes},
                      {"seconds", report.seconds}};
  return whole.dump(2) + "\n";
}

}  // namespace tutti::labs
