// What the lab `scaling` measures: layouts, the runs of each, and where their time went.
//
// Values; results.json is their text. Functions over files throw std::runtime_error with a sentence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tutti::labs::scaling {

/// One line of layouts.txt: "2x1", or "4x1 n1:2,n2:2" on several hosts.
struct Layout {
  int ranks = 1;
  int threads = 1;
  std::string hosts{};  // as `tutti run -H` takes them; empty: this host

  std::string name() const;
  int most_on_a_host() const;  // ranks
};

struct Plan {
  std::string model = "mlp";
  int epochs = 2;
  int batch_size = 64;  // of each rank
  int repeats = 3;
  std::string data{};  // folder; empty: as `tutti train` looks for it
  std::vector<Layout> layouts;
  std::string text;  // of the file, to see whether results belong to it
};

/// One run of the trainer. The parts are means over the ranks and add up to `seconds`.
struct Timing {
  double seconds = 0;  // from the start of the command to its end
  double compute = 0;  // of the steps: forward, backward, optimizer
  double waiting = 0;  // of the steps: for the gradients of other ranks
  std::int64_t steps = 0;

  double rest() const { return seconds - compute - waiting; }  // start, data, evaluation, end
};

struct Row {
  Layout layout;
  std::vector<Timing> runs;

  Timing median() const;  // the run whose time is the median (the lower one of two)
  double fastest() const;
  double slowest() const;
};

struct Results {
  int cores = 1;  // that this process may use
  bool generated_data = false;
  Plan plan;
  std::vector<Row> rows;
};

/// layouts.txt; throws with the line that is wrong.
Plan read_plan(const std::filesystem::path& file);

std::string to_json(const Results& results);
Results from_json(const std::string& text);

}  // namespace tutti::labs::scaling
