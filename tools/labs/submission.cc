#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/grade.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace tutti::labs {

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

}  // namespace tutti::labs
