// Hints: where to look, without the answer. They stand in hints.json, by diagnosis.

#include <tutti/tools/labs/embedded.h>
#include <tutti/tools/labs/grade.h>

#include <nlohmann/json.hpp>

namespace tutti::labs {

std::string hint_for(const std::string& diagnosis) {
  static const auto hints = nlohmann::json::parse(hint_files()[0].text);
  return hints.value(diagnosis, "");
}

}  // namespace tutti::labs
