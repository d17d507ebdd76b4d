#include <tutti/comm/base/format.h>
#include <tutti/tools/labs/answers.h>
#include <tutti/tools/labs/layouts/commands.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace tutti::labs::layouts {
namespace {

enum class Value { None, Number, Names, Distribution, Any };

struct Known {
  const char* longer;
  char shorter;  // 0: none
  Value value;
  bool is_layout;  // decides where tasks run; else it is read and passed over
};

constexpr Known kKnown[] = {{"--nodes", 'N', Value::Number, true},
                            {"--ntasks", 'n', Value::Number, true},
                            {"--ntasks-per-node", 0, Value::Number, true},
                            {"--cpus-per-task", 'c', Value::Number, true},
                            {"--relative", 'r', Value::Number, true},
                            {"--nodelist", 'w', Value::Names, true},
                            {"--distribution", 'm', Value::Distribution, true},
                            {"--exclusive", 0, Value::None, true},
                            {"--time", 't', Value::Any, false},
                            {"--partition", 'p', Value::Any, false},
                            {"--qos", 'q', Value::Any, false},
                            {"--account", 'A', Value::Any, false},
                            {"--job-name", 'J', Value::Any, false},
                            {"--output", 'o', Value::Any, false},
                            {"--error", 'e', Value::Any, false},
                            {"--chdir", 'D', Value::Any, false},
                            {"--quiet", 'Q', Value::None, false},
                            {"--label", 'l', Value::None, false},
                            {"--unbuffered", 'u', Value::None, false}};

using Options = std::map<std::string, std::string>;  // by the long name

std::string number_in(const std::string& option, const std::string& value) {
  const int least = option == "--relative" ? 0 : 1;
  const bool is_number = value.find_first_not_of("0123456789") == std::string::npos && value.size() < 6;
  if (!is_number || std::stoi(value) < least) {
    throw LineError(option + " takes one whole number from " + std::to_string(least) + ", not '" + value +
                    "' (ranges and lists of numbers, which Slurm has too, are not part of this lab)");
  }
  return std::to_string(std::stoi(value));
}

/// Sorted: Slurm takes nodes in the cluster's order, whatever the order of their names.
std::string names_in(const std::string& option, const std::string& value) {
  std::vector<std::string> names;
  for (const std::string& name : comm::split(value, ',')) {
    names.push_back(name);
    const bool is_plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
    });
    if (name.empty() || !is_plain) {
      throw LineError(option + " takes names with commas between them in this lab, not '" + value + "'");
    }
  }
  std::sort(names.begin(), names.end());
  std::string sorted;
  for (const std::string& name : names) sorted += (sorted.empty() ? "" : ",") + name;
  return sorted;
}

std::string distribution_in(const std::string& value) {
  if (value == "block" || value == "cyclic") return value;
  if (value.rfind("plane=", 0) == 0) return "plane=" + number_in("--distribution=plane", value.substr(6));
  throw LineError("--distribution is block, cyclic or plane=SIZE in this lab, not '" + value + "'");
}

void take(const Known& known, const std::string& value, Options& options) {
  if (!known.is_layout) return;
  std::string& taken = options[known.longer];
  if (known.value == Value::Number) taken = number_in(known.longer, value);
  if (known.value == Value::Names) taken = names_in(known.longer, value);
  if (known.value == Value::Distribution) taken = distribution_in(value);
}

const Known& known_option(const std::string& word, const std::string& name) {
  const auto* found = std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& known) {
    return name.size() == 2 ? name[1] == known.shorter : name == known.longer;
  });
  if (found == std::end(kKnown)) {
    throw LineError("'" + word + "' is not an option that this lab knows; see the list in text.md");
  }
  return *found;
}

/// Reads the options at words[at ...] and returns the index of the first word that is none.
std::size_t take_options(const std::vector<std::string>& words, std::size_t at, Options& options) {
  while (at < words.size() && words[at].size() > 1 && words[at][0] == '-') {
    const std::string word = words[at++];
    if (word == "--") break;
    const bool is_long = word[1] == '-';
    const std::size_t equals = is_long ? word.find('=') : std::string::npos;
    const Known& known = known_option(word, is_long ? word.substr(0, equals) : word.substr(0, 2));
    const bool has_value = known.value != Value::None;
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (!is_long && word.size() > 2) {
      value = word.substr(2);
      if (!has_value) throw LineError("write '" + word.substr(0, 2) + "' as a word of its own in '" + word + "'");
    } else if (has_value) {
      if (at == words.size()) throw LineError("'" + word + "' needs a value behind it");
      value = words[at++];
    }
    if (has_value && value.empty()) throw LineError("'" + word + "' has an empty value");
    take(known, value, options);
  }
  return at;
}

/// Splits as a shell does: quotes, backslashes and comments. Refuses variables, pipes, redirections and several
/// commands.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    char c = line[i];
    if (quote == 0 && !in_word && c == '#') break;
    if (c == '$' && quote != '\'') throw LineError("write numbers and names out: variables ('$') are not read here");
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
      if (!in_word) words.emplace_back();
      in_word = true;
      continue;
    }
    if (quote != 0 && c == quote) {
      quote = 0;
      continue;
    }
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\r')) {
      in_word = false;
      continue;
    }
    if (quote == 0 && std::string_view("|&;<>()`").find(c) != std::string_view::npos) {
      throw LineError(std::string("one plain command a line, please: '") + c + "' is not read here");
    }
    if (c == '\\' && quote != '\'' && i + 1 < line.size()) c = line[++i];
    if (!in_word) words.emplace_back();
    in_word = true;
    words.back() += c;
  }
  if (quote != 0) throw LineError(std::string("a quotation mark (") + quote + ") is never closed");
  return words;
}

std::string spelled(const Options& options) {
  std::string text;
  for (const Known& known : kKnown) {
    const auto found = options.find(known.longer);
    if (found == options.end() || found->second == "block") continue;  // block is what Slurm does without being told
    text += (text.empty() ? "" : " ") + found->first + (known.value == Value::None ? "" : "=" + found->second);
  }
  return text;
}

}  // namespace

Step read_srun(std::string_view line) {
  const std::vector<std::string> words = words_of(line);
  if (words.empty() || words[0] != "srun") throw LineError("the line must begin with srun");
  Options options;
  const std::size_t at = take_options(words, 1, options);
  if (at == words.size()) throw LineError("srun is told no program to run; the exercise asks for hostname");
  if (std::find(words.begin(), words.end(), ":") != words.end()) {
    throw LineError("heterogeneous steps (':') are not part of this lab");
  }
  return {spelled(options), std::string(line)};
}

std::string canonical(std::string_view text) {
  const std::vector<std::string> words = words_of(text);
  Options options;
  const std::size_t at = take_options(words, 0, options);
  if (at < words.size()) throw LineError("'" + words[at] + "' behind #SBATCH is no option");
  return spelled(options);
}

Script read_script(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  const auto text = read_text(file);
  if (!text) throw LineError("there is no file " + name + " that can be read in the folder");
  Script script;
  std::string job;
  std::istringstream in(*text);
  std::string line, next;
  for (int number = 1; std::getline(in, line); ++number) {
    while (!line.empty() && line.back() == '\\' && std::getline(in, next)) {
      line.back() = ' ';
      line += next;
      ++number;
    }
    const std::size_t begin = line.find_first_not_of(" \t");
    try {
      if (line.rfind("#SBATCH", 0) == 0) {
        if (!script.steps.empty()) throw LineError("#SBATCH behind the first command is not read, by Slurm either");
        job = canonical(job + " " + line.substr(7));
      } else if (begin != std::string::npos && line.compare(begin, 4, "srun") == 0) {
        script.steps.push_back(read_srun(line));
      }
    } catch (const LineError& error) {
      throw LineError(name + ", line " + std::to_string(number) + ": " + error.what());
    }
  }
  script.job = job;
  return script;
}

}  // namespace tutti::labs::layouts
