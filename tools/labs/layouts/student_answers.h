// What a student's folder of the lab `layouts` says: the cluster, the commands, and the tables.
//
// Values. Functions over files; they throw LineError with the file and the line in the text.
#pragma once

#include <tutti/tools/labs/layouts/placement.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tutti::labs::layouts {

struct Setting {
  Cluster cluster;
  bool is_real = false;  // run the commands under the Slurm of this host
};

/// cluster.txt: "nodes: arnold bruce", "cores: 4", "slurm: no".
Setting read_setting(const std::filesystem::path& folder);

/// The srun lines of a script, and what its #SBATCH lines ask for; lines of other commands are passed over.
struct Script {
  Options job;
  std::vector<CommandLine> steps;
};
Script read_script(const std::filesystem::path& file);

/// table.txt: lines "a 0 arnold 0" (exercise, rank, node, local rank), by exercise and rank.
using Tables = std::map<std::string, std::map<int, Task>>;
Tables read_tables(const std::filesystem::path& file);

}  // namespace tutti::labs::layouts
