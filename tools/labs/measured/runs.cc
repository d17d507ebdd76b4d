#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/measured/runs.h>

#include <stdexcept>
#include <utility>

namespace tutti::labs {

Question question_of(const std::string& function, const Case& posed, const std::vector<BufferContent>& buffers) {
  Question question;
  question.function = function;
  question.posed = posed;
  question.posed.type = ElementType::UInt8;  // as functions without a type are registered
  question.buffers.assign(static_cast<std::size_t>(posed.world_size), buffers);
  return question;
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

Finding finding_of(std::string diagnosis, std::string text, std::string hint) {
  Finding finding;
  finding.diagnosis = std::move(diagnosis);
  finding.text = std::move(text);
  finding.hint = std::move(hint);
  return finding;
}

std::optional<Finding> incident_of(const RunResult& run, const std::string& where) {
  const Incident* wrong = run.first_wrong();
  if (wrong == nullptr) return std::nullopt;
  Finding finding = finding_of(wrong->diagnosis, wrong->text, hint_for(Lab{}, nullptr, wrong->diagnosis));
  finding.evidence = wrong->diagnosis;
  finding.failed_case = where;
  return finding;
}

std::unique_ptr<Opened> opened(const std::filesystem::path& source, const std::vector<std::string>& functions) {
  auto result = std::make_unique<Opened>();
  const Compiled compiled = compile(source, result->workplace);
  if (!compiled.is_good) {
    result->failure =
        finding_of(diagnosis::kDoesNotCompile, compiled.reason, "The first message of the compiler counts.");
    result->messages = compiled.messages;
    return result;
  }
  result->submission = std::make_unique<Submission>(compiled.program, result->workplace);
  for (const std::string& function : functions) {
    if (!result->failure) result->failure = result->submission->cannot_be_called(function);
  }
  return result;
}

std::filesystem::path source_in(const std::filesystem::path& folder, const std::string& lab) {
  const auto source = folder / (lab + ".cc");
  if (std::filesystem::is_regular_file(source)) return source;
  throw std::runtime_error("there is no " + source.string() + ": write the skeleton with 'tutti lab start " + lab +
                           " " + folder.string() + "', or name the folder that has it");
}

}  // namespace tutti::labs
