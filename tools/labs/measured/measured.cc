#include <tutti/tools/labs/measured/measured.h>

namespace tutti::labs {

Question question_of(const std::string& function, const Case& posed, const std::vector<BufferContent>& buffers) {
  Question question;
  question.function = function;
  question.posed = posed;
  question.posed.type = ElementType::UInt8;  // as functions without a type are registered
  question.buffers.assign(static_cast<std::size_t>(posed.world_size), buffers);
  return question;
}

std::optional<Finding> incident_of(const RunResult& run, const std::string& where) {
  const Incident* wrong = run.first_wrong();
  if (wrong == nullptr) return std::nullopt;
  Finding finding = finding_of(wrong->diagnosis, wrong->text, hint_for(wrong->diagnosis));
  finding.evidence = wrong->diagnosis;
  finding.failed_case = where;
  return finding;
}

}  // namespace tutti::labs
