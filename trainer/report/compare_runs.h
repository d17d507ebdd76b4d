// compare_runs: where two runs part, the first step and the first tensor.
//
// Losses are compared rank by rank when both runs had the same ranks, else as means over all ranks' samples. Of the two
// newest checkpoints all tensors are compared, the model's first, then the optimizer's. Pure functions over files.
#pragma once

#include <tutti/trainer/checkpoint/safetensors.h>
#include <tutti/trainer/report/run_data.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tutti::trainer {

struct LossDifference {
  StepRecord a, b;
  std::optional<int> rank{};  // nothing: means over all ranks
};

struct TensorDifference {
  std::string name;
  std::string what{};   // "shapes (2) and (3)", "values"
  std::string index{};  // "[3, 17]" of the first element that differs
  double a = 0, b = 0;
  double largest = 0;         // difference in this tensor
  std::int64_t elements = 0;  // of it that differ
};

/// |a - b| / the larger of both; 0 if equal, bit for bit or both no numbers.
double relative_difference(double a, double b);

/// The first step, of those that both have, whose losses differ by more than `tolerance` (relative).
std::optional<LossDifference> first_loss_difference(const std::vector<RankSteps>& a, const std::vector<RankSteps>& b,
                                                    double tolerance);

/// The first tensor that differs, in the order of a's; elements may differ by `tolerance` times the largest magnitude
/// in their tensor. `differing` gets the number of tensors that differ.
std::optional<TensorDifference> first_tensor_difference(const NamedTensors& a, const NamedTensors& b, double tolerance,
                                                        std::size_t& differing);

struct RunComparison {
  bool equal = true;
  std::string text;  // lines for a person

  void say(const std::string& line) { text += line + "\n"; }
  void differs(const std::string& line) {
    equal = false;
    say(line);
  }
};

/// Options that differ are listed, and make no difference. Throws std::runtime_error when a folder is none of a run's,
/// or when the runs have nothing in common that can be compared.
RunComparison compare_runs(const std::filesystem::path& a, const std::filesystem::path& b, double tolerance);

}  // namespace tutti::trainer
