#include <tutti/comm/base/format.h>
#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/report/compare_runs.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

std::string exact(double value) { return comm::format("%.17g", value); }

std::string rounded(double value) { return comm::format("%.3g", value); }

std::optional<LossDifference> first_between(const std::vector<StepRecord>& a, const std::vector<StepRecord>& b,
                                            double tolerance) {
  std::size_t j = 0;
  for (const StepRecord& left : a) {
    while (j < b.size() && b[j].global_step < left.global_step) ++j;
    if (j == b.size()) break;
    if (b[j].global_step != left.global_step) continue;
    if (relative_difference(left.loss, b[j].loss) <= tolerance) continue;
    return LossDifference{left, b[j]};
  }
  return std::nullopt;
}

bool same_ranks(const std::vector<RankSteps>& a, const std::vector<RankSteps>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.rank == y.rank; });
}

std::string index_text(const tensor::Shape& shape, std::int64_t flat) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()));
  for (std::size_t axis = index.size(); axis-- > 0;) {
    index[axis] = flat % shape[static_cast<int>(axis)];
    flat /= shape[static_cast<int>(axis)];
  }
  std::string text = "[";
  for (std::size_t axis = 0; axis < index.size(); ++axis) text += (axis > 0 ? ", " : "") + std::to_string(index[axis]);
  return text + "]";
}

std::string form(const tensor::Tensor& tensor) {
  return std::string(tensor::name(tensor.dtype())) + " " + tensor.shape().to_string();
}

std::optional<TensorDifference> difference_of(const std::string& name, const tensor::Tensor& a, const tensor::Tensor& b,
                                              double tolerance) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) {
    return TensorDifference{.name = name, .what = "is " + form(a) + " in A, " + form(b) + " in B"};
  }
  const tensor::Tensor left = a.contiguous().to(tensor::DType::Float64);
  const tensor::Tensor right = b.contiguous().to(tensor::DType::Float64);
  const double* const in_a = left.data<double>();
  const double* const in_b = right.data<double>();
  double largest_value = 0;
  for (std::int64_t i = 0; i < left.numel() && tolerance > 0; ++i) {
    largest_value = std::max({largest_value, std::abs(in_a[i]), std::abs(in_b[i])});
  }
  TensorDifference difference{.name = name};
  for (std::int64_t i = 0; i < left.numel(); ++i) {
    const double x = in_a[i], y = in_b[i];
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    const double apart = std::abs(x - y);
    if (apart <= tolerance * largest_value) continue;
    if (difference.elements++ == 0) {
      difference.index = index_text(left.shape(), i);
      difference.a = x;
      difference.b = y;
    }
    if (!(apart <= difference.largest)) difference.largest = apart;
  }
  if (difference.elements == 0) return std::nullopt;
  return difference;
}

// --- What is told ----------------------------------------------------------------------------------------------------

void tell_options(RunComparison& tell, const OptionTexts& a, const OptionTexts& b) {
  auto differing = differences(a, b);
  for (const char* place : {"checkpoint-dir", "json", "trace"}) differing.erase(place);
  for (const auto& [name, texts] : differing) {
    tell.say("option " + name + ": " + texts.first + " in A, " + texts.second + " in B");
  }
  if (differing.empty() && !(a.empty() && b.empty())) tell.say("options: equal");
}

std::int64_t steps_in(const std::vector<RankSteps>& ranks) {
  std::int64_t last = -1;
  for (const RankSteps& rank : ranks) {
    for (const StepRecord& record : rank.records) last = std::max(last, record.global_step);
  }
  return last + 1;
}

void tell_losses(RunComparison& tell, const RunData& a, const RunData& b, double tolerance) {
  if (a.steps.empty() || b.steps.empty()) {
    tell.say(std::string("losses: not compared, ") + (a.steps.empty() ? "A" : "B") + " has no records of steps");
    return;
  }
  const std::int64_t in_a = steps_in(a.steps), in_b = steps_in(b.steps);
  const std::string each = same_ranks(a.steps, b.steps) ? "on each rank" : "as means over the ranks";
  if (const auto first = first_loss_difference(a.steps, b.steps, tolerance)) {
    tell.differs("losses: the first that differ are of step " + std::to_string(first->a.global_step) + " (epoch " +
                 std::to_string(first->a.epoch) + ", step " + std::to_string(first->a.step) + ")" +
                 (first->rank ? " on rank " + std::to_string(*first->rank) : ", as means over the ranks") + ": " +
                 exact(first->a.loss) + " in A, " + exact(first->b.loss) + " in B, relative difference " +
                 rounded(relative_difference(first->a.loss, first->b.loss)));
  } else {
    tell.say("losses: equal " + each + " in " + std::to_string(std::min(in_a, in_b)) + " steps");
  }
  if (in_a != in_b) tell.differs("steps: " + std::to_string(in_a) + " in A, " + std::to_string(in_b) + " in B");
}

fs::path checkpoints_of(const RunData& run) {
  const fs::path beside = run.folder / "checkpoints";
  return fs::exists(beside) ? beside : fs::path(text_in(run.options, "checkpoint-dir", beside.string()));
}

void tell_tensors_of(RunComparison& tell, const std::string& what, const NamedTensors& a, const NamedTensors& b,
                     double tolerance) {
  std::size_t differing = 0;
  const auto first = first_tensor_difference(a, b, tolerance, differing);
  if (!first) return tell.say(what + ": all " + std::to_string(a.size()) + " tensors are equal");
  std::string text = what + ": the first tensor that differs is " + first->name;
  if (!first->what.empty()) {
    text += ", which " + first->what;
  } else {
    text += " at " + first->index + ": " + exact(first->a) + " in A, " + exact(first->b) + " in B; " +
            std::to_string(first->elements) + " of its elements differ, by up to " + rounded(first->largest);
  }
  tell.differs(text + "; " + std::to_string(differing) + " of " + std::to_string(a.size()) + " tensors differ");
}

/// False if there was nothing to compare.
bool tell_tensors(RunComparison& tell, const RunData& a, const RunData& b, double tolerance) {
  const auto folder_a = newest_checkpoint(checkpoints_of(a)), folder_b = newest_checkpoint(checkpoints_of(b));
  if (!folder_a || !folder_b) {
    tell.say(std::string("tensors: not compared, ") + (folder_a ? "B" : "A") + " has no checkpoint");
    return false;
  }
  const Checkpoint left = read_checkpoint(*folder_a), right = read_checkpoint(*folder_b);
  if (folder_a->filename() != folder_b->filename()) {
    tell.differs("checkpoints: the newest is " + folder_a->filename().string() + " in A, " +
                 folder_b->filename().string() + " in B");
  }
  tell_tensors_of(tell, "model", left.model, right.model, tolerance);
  tell_tensors_of(tell, "optimizer", left.optimizer, right.optimizer, tolerance);
  return true;
}

}  // namespace

double relative_difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::infinity();
  return std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

std::optional<LossDifference> first_loss_difference(const std::vector<RankSteps>& a, const std::vector<RankSteps>& b,
                                                    double tolerance) {
  if (!same_ranks(a, b)) return first_between(mean_over_ranks(a), mean_over_ranks(b), tolerance);
  std::optional<LossDifference> first;
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto found = first_between(a[i].records, b[i].records, tolerance);
    if (!found || (first && first->a.global_step <= found->a.global_step)) continue;
    first = found;
    first->rank = a[i].rank;
  }
  return first;
}

std::optional<TensorDifference> first_tensor_difference(const NamedTensors& a, const NamedTensors& b, double tolerance,
                                                        std::size_t& differing) {
  differing = 0;
  std::optional<TensorDifference> first;
  const auto add = [&](std::optional<TensorDifference> found) {
    if (!found) return;
    ++differing;
    if (!first) first = std::move(found);
  };
  std::map<std::string, tensor::Tensor> others(b.begin(), b.end());
  for (const auto& [name, tensor] : a) {
    const auto other = others.find(name);
    if (other == others.end()) {
      add(TensorDifference{.name = name, .what = "is in A only"});
      continue;
    }
    add(difference_of(name, tensor, other->second, tolerance));
    others.erase(other);
  }
  for (const auto& [name, tensor] : others) add(TensorDifference{.name = name, .what = "is in B only"});
  return first;
}

RunComparison compare_runs(const fs::path& a, const fs::path& b, double tolerance) {
  const RunData left = read_run(a), right = read_run(b);
  RunComparison tell;
  tell.say("A is " + a.string() + ", B is " + b.string());
  tell_options(tell, left.options, right.options);
  tell_losses(tell, left, right, tolerance);
  const bool has_tensors = tell_tensors(tell, left, right, tolerance);
  const std::string sha_a = left.report.parameter_sha256, sha_b = right.report.parameter_sha256;
  if (!has_tensors && !sha_a.empty() && !sha_b.empty()) {
    if (sha_a == sha_b) {
      tell.say("final parameters: the same sha256");
    } else if (tolerance > 0) {
      tell.say("final parameters: not the same sha256; how far they are apart only checkpoints can tell");
    } else {
      tell.differs("final parameters: sha256 " + sha_a + " in A, " + sha_b + " in B");
    }
  } else if (!has_tensors && (left.steps.empty() || right.steps.empty())) {
    throw std::runtime_error(
        "nothing of these runs can be compared: neither steps nor checkpoints nor final "
        "parameters are there in both");
  }
  return tell;
}

}  // namespace tutti::trainer
