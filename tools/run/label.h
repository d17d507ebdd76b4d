// What stands before each line of a rank: a template with the names of torchrun's
// TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE (Python's string.Template), and some more. Pure functions.
#pragma once

#include <string>

namespace tutti::tools {

/// The values of ${rank}, ${local_rank}, ${node}, ${host}, ${role_name}. Texts, for several ranks can share a line.
struct LabelFields {
  std::string rank;
  std::string local_rank;
  std::string node;
  std::string host;
  std::string role_name;
};

inline constexpr char kLabelOfOneHost[] = "[rank ${rank}] ";
inline constexpr char kLabelOfSeveralHosts[] = "[${host}/${rank}] ";

/// "${name}" becomes its value and "$$" a dollar. Throws std::invalid_argument naming what is unknown, and what is not.
std::string expand_label(const std::string& text, const LabelFields& fields);

}  // namespace tutti::tools
