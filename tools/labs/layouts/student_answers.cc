#include <tutti/tools/labs/answers.h>
#include <tutti/tools/labs/layouts/student_answers.h>

#include <cstddef>
#include <sstream>

namespace tutti::labs::layouts {
namespace {

constexpr int kMostNodes = 64, kMostCores = 1024;

std::string text_of(const std::filesystem::path& file) {
  const auto text = read_text(file);
  if (!text) throw LineError("there is no file " + file.filename().string() + " that can be read in the folder");
  return *text;
}

[[noreturn]] void refuse(const std::filesystem::path& file, int line, const std::string& why) {
  throw LineError(file.filename().string() + ", line " + std::to_string(line) + ": " + why);
}

}  // namespace

Setting read_setting(const std::filesystem::path& folder) {
  const Answers lines = read_answers(text_of(folder / "cluster.txt"));
  Setting setting;
  std::istringstream nodes(lines.count("nodes") != 0 ? lines.at("nodes") : "");
  for (std::string name; nodes >> name;) setting.cluster.nodes.push_back(name);
  const double cores = lines.count("cores") != 0 ? number_of(lines.at("cores")).value_or(0) : 0;
  if (setting.cluster.nodes.size() < 3 || setting.cluster.nodes.size() > kMostNodes || cores < 3 ||
      cores > kMostCores) {
    throw LineError(
        "cluster.txt must have the lines 'nodes: NAME NAME NAME ...' with three nodes or more, and 'cores: N' with "
        "three "
        "or more");
  }
  for (const std::string& name : setting.cluster.nodes) {
    if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") !=
        std::string::npos) {
      throw LineError("cluster.txt: '" + name + "' is no name of a node");
    }
  }
  setting.cluster.cores = static_cast<int>(cores);
  setting.is_real = lines.count("slurm") != 0 && lines.at("slurm") == "yes";
  return setting;
}

Script read_script(const std::filesystem::path& file) {
  Script script;
  std::istringstream in(text_of(file));
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
        read_sbatch(std::string_view(line).substr(7), script.job);
      } else if (begin != std::string::npos && line.compare(begin, 4, "srun") == 0) {
        script.steps.push_back(read_srun(line));
      }
    } catch (const LineError& error) {
      refuse(file, number, error.what());
    }
  }
  return script;
}

Tables read_tables(const std::filesystem::path& file) {
  Tables tables;
  std::istringstream in(text_of(file));
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string exercise, extra;
    int rank = 0;
    Task task;
    if (!(words >> exercise)) continue;
    if (!(words >> rank >> task.node >> task.local) || words >> extra || rank < 0) {
      refuse(file, number, "a line is EXERCISE RANK NODE LOCAL_RANK, as in 'a 0 arnold 0'; found '" + line + "'");
    }
    if (!tables[exercise].emplace(rank, task).second) {
      refuse(file, number, "rank " + std::to_string(rank) + " of " + exercise + " has a line already");
    }
  }
  return tables;
}

}  // namespace tutti::labs::layouts
