#include <tutti/tools/labs/layouts/command_line.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

namespace tutti::labs::layouts {
namespace {

struct Known {
  const char* longer;
  char shorter;    // 0: none
  bool has_value;  // false: a switch
  bool is_layout;  // decides where tasks run; else it is read and passed over
};

constexpr std::array<Known, 19> kKnown{{{"--nodes", 'N', true, true},
                                        {"--ntasks", 'n', true, true},
                                        {"--ntasks-per-node", 0, true, true},
                                        {"--cpus-per-task", 'c', true, true},
                                        {"--relative", 'r', true, true},
                                        {"--nodelist", 'w', true, true},
                                        {"--distribution", 'm', true, true},
                                        {"--exclusive", 0, false, true},
                                        {"--time", 't', true, false},
                                        {"--partition", 'p', true, false},
                                        {"--qos", 'q', true, false},
                                        {"--account", 'A', true, false},
                                        {"--job-name", 'J', true, false},
                                        {"--output", 'o', true, false},
                                        {"--error", 'e', true, false},
                                        {"--chdir", 'D', true, false},
                                        {"--quiet", 'Q', false, false},
                                        {"--label", 'l', false, false},
                                        {"--unbuffered", 'u', false, false}}};

constexpr char kNameCharacters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

int positive(const std::string& option, const std::string& value, int least) {
  int number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  if (error != std::errc() || stop != end || number < least) {
    throw LineError(option + " takes one whole number from " + std::to_string(least) + ", not '" + value +
                    "' (ranges and lists of numbers, which Slurm has too, are not part of this lab)");
  }
  return number;
}

std::vector<std::string> names_of(const std::string& option, const std::string& value) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  while (begin <= value.size()) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    names.push_back(value.substr(begin, end - begin));
    if (names.back().empty() || names.back().find_first_not_of(kNameCharacters) != std::string::npos) {
      throw LineError(option + " takes names with commas between them in this lab, not '" + value + "'");
    }
    begin = end + 1;
  }
  return names;
}

void take_distribution(const std::string& value, Options& options) {
  if (value == "block") {
    options.distribution = Distribution::Block;
  } else if (value == "cyclic") {
    options.distribution = Distribution::Cyclic;
  } else if (value.rfind("plane=", 0) == 0) {
    options.distribution = Distribution::Plane;
    options.plane = positive("--distribution=plane", value.substr(6), 1);
  } else {
    throw LineError("--distribution is block, cyclic or plane=SIZE in this lab, not '" + value + "'");
  }
}

void take(const Known& known, const std::string& value, Options& options) {
  const std::string name = known.longer;
  if (name == "--nodes") options.nodes = positive(name, value, 1);
  if (name == "--ntasks") options.tasks = positive(name, value, 1);
  if (name == "--ntasks-per-node") options.tasks_per_node = positive(name, value, 1);
  if (name == "--cpus-per-task") options.cpus_per_task = positive(name, value, 1);
  if (name == "--relative") options.relative = positive(name, value, 0);
  if (name == "--nodelist") options.nodelist = names_of(name, value);
  if (name == "--distribution") take_distribution(value, options);
  if (name == "--exclusive") options.exclusive = true;
}

const Known& known_option(const std::string& word, const std::string& name) {
  const auto found = std::find_if(kKnown.begin(), kKnown.end(), [&](const Known& known) {
    return name.size() == 2 ? name[1] == known.shorter : name == known.longer;
  });
  if (found == kKnown.end()) {
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
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (!is_long && word.size() > 2) {
      value = word.substr(2);
      if (!known.has_value) throw LineError("write '" + word.substr(0, 2) + "' as a word of its own in '" + word + "'");
    } else if (known.has_value) {
      if (at == words.size()) throw LineError("'" + word + "' needs a value behind it");
      value = words[at++];
    }
    if (known.has_value && value.empty()) throw LineError("'" + word + "' has an empty value");
    if (known.is_layout) take(known, value, options);
  }
  return at;
}

}  // namespace

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

CommandLine read_srun(std::string_view line) {
  const std::vector<std::string> words = words_of(line);
  if (words.empty() || words[0] != "srun") throw LineError("the line must begin with srun");
  CommandLine result;
  result.text = std::string(line);
  const std::size_t at = take_options(words, 1, result.options);
  result.command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  if (result.command.empty()) throw LineError("srun is told no program to run; the exercise asks for hostname");
  for (const std::string& word : result.command) {
    if (word == ":") throw LineError("heterogeneous steps (':') are not part of this lab");
  }
  return result;
}

void read_sbatch(std::string_view text, Options& options) {
  const std::vector<std::string> words = words_of(text);
  const std::size_t at = take_options(words, 0, options);
  if (at < words.size()) throw LineError("'" + words[at] + "' behind #SBATCH is no option");
}

}  // namespace tutti::labs::layouts
