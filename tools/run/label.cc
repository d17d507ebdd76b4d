#include <tutti/tools/run/label.h>

#include <stdexcept>

namespace tutti::tools {
namespace {

const std::string& value_of(const std::string& name, const LabelFields& fields) {
  if (name == "rank") return fields.rank;
  if (name == "local_rank") return fields.local_rank;
  if (name == "node") return fields.node;
  if (name == "host") return fields.host;
  if (name == "role_name" || name == "role") return fields.role_name;
  throw std::invalid_argument("the label has ${" + name +
                              "}, but knows ${rank}, ${local_rank}, ${node}, ${host} and ${role_name} only");
}

}  // namespace

std::string expand_label(const std::string& text, const LabelFields& fields) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      result += text[i];
      continue;
    }
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    const std::size_t end = next == '{' ? text.find('}', i) : std::string::npos;
    if (next == '$') {
      result += '$';
      ++i;
    } else if (end != std::string::npos) {
      result += value_of(text.substr(i + 2, end - i - 2), fields);
      i = end;
    } else {
      throw std::invalid_argument("the label '" + text + "' has a $ that begins neither ${name} nor $$");
    }
  }
  return result;
}

}  // namespace tutti::tools
