#include <tutti/tools/commands.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>

namespace tutti::tools {
namespace {

// Letters to change, add, leave out or swap with the next one until `a` is `b` (optimal string alignment distance,
// https://en.wikipedia.org/wiki/Damerau-Levenshtein_distance).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

/// "; did you mean NAME?", of the name that `word` is nearest to; "" if all are far.
std::string suggestion(const std::string& word, const std::vector<std::string>& names) {
  const std::string* nearest = nullptr;
  std::size_t least = word.size() / 3 + 2;  // more differences are another word
  for (const std::string& name : names) {
    if (const std::size_t far = distance(word, name); far < least) {
      least = far;
      nearest = &name;
    }
  }
  return nearest == nullptr ? "" : "; did you mean " + *nearest + "?";
}

}  // namespace

std::string unknown_word(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  if (word.starts_with("-")) {
    for (const CLI::Option* option : command.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const std::string name = word.substr(0, word.find('='));
    return "unknown option " + name + suggestion(name, names);
  }
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  if (names.empty()) return "'" + word + "' is one word too many";
  return "unknown command " + word + suggestion(word, names);
}

}  // namespace tutti::tools
