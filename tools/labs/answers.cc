#include <tutti/comm/base/format.h>
#include <tutti/tools/labs/answers.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/embedded.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <locale>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace tutti::labs {
namespace {

constexpr std::uintmax_t kLongest = 1 << 20;

std::string trimmed(std::string_view text) {
  const char* blanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(blanks) - begin + 1));
}

/// One blank between words, whatever the student has typed; commas are blanks.
std::string one_blank(std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + word;
  return result;
}

/// `question` is one of key.json.
bool is_right(const nlohmann::json& question, const std::string& answer) {
  if (question.contains("right")) {
    const auto right = question["right"].get<std::vector<std::string>>();
    return std::find(right.begin(), right.end(), one_blank(answer)) != right.end();
  }
  const auto number = number_of(answer);
  return number && std::abs(*number - question.at("number").get<double>()) <= question.at("tolerance").get<double>();
}

}  // namespace

Answers read_answers(std::string_view text) {
  Answers answers;
  for (const std::string& line : comm::split(text, '\n')) {
    const std::string_view bare = std::string_view(line).substr(0, line.find('#'));
    const std::size_t colon = bare.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string value = trimmed(bare.substr(colon + 1));
    if (!value.empty()) answers[trimmed(bare.substr(0, colon))] = value;
  }
  return answers;
}

std::optional<double> number_of(const std::string& answer) {
  std::string text = answer;
  std::replace(text.begin(), text.end(), ',', '.');
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  double value = 0;
  if (!(in >> value) || !std::isfinite(value)) return std::nullopt;
  std::string rest;
  std::getline(in, rest);
  if (rest.find_first_of("0123456789") != std::string::npos) return std::nullopt;
  return value;
}

std::string_view answer_table(const std::string& lab, const std::string& file) {
  for (const EmbeddedFile& embedded : answer_tables()) {
    if (embedded.path == lab + "/" + file) return embedded.text;
  }
  throw std::logic_error("this tutti has no " + file + " of the lab " + lab);
}

void grade_answers(const CheckContext& context, Report& report) {
  const auto key = nlohmann::json::parse(answer_table(context.lab, "key.json"));
  const Answers given = read_answers(read_text(context.folder / "answers.txt").value_or(""));
  for (const nlohmann::json& question : key.at("questions")) {
    const auto name = question.at("name").get<std::string>();
    const auto hint = question.at("hint").get<std::string>();
    const auto found = given.find(name);
    std::optional<Finding> wrong;
    if (found == given.end()) {
      wrong = finding_of(diagnosis::kNotStarted, "answers.txt has no answer behind '" + name + ":'", hint);
    } else if (!is_right(question, found->second)) {
      wrong = finding_of(diagnosis::kWrongAnswer, name + ": '" + found->second + "' is not right", hint);
    }
    report.stages.push_back(stage_of(name, question.at("title"), question.at("points"), std::move(wrong)));
  }
}

Report check_answers(const CheckContext& context) {
  if (!std::filesystem::is_regular_file(context.folder / "answers.txt")) {
    throw std::runtime_error("there is no " + (context.folder / "answers.txt").string() + ": 'tutti lab start " +
                             context.lab + " " + context.folder.string() +
                             "' writes it, or name the folder that has it");
  }
  Report report;
  grade_answers(context, report);
  return report;
}

std::optional<std::string> read_text(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return std::nullopt;
  if (std::filesystem::file_size(file, error) > kLongest || error) return std::nullopt;
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace tutti::labs
