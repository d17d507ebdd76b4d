// reduce and all_reduce: a wrong sum tells whose elements are missing.

#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/tasks/judging.h>

#include <algorithm>
#include <cmath>

namespace tutti::labs {
namespace {

// Sums of rounded inputs: right up to rounding; whether ranks agree is judged apart.
bool is_close(double found, double expected, const Case& posed) {
  const double unit = posed.type == ElementType::Float32 ? 0x1p-23 : 0x1p-52;
  return std::abs(found - expected) <= posed.world_size * unit * std::abs(expected);
}

// What reductions have in common: which element is wrong, and why.
std::optional<Incident> judge_reduced(const Question& question, int rank, std::size_t call, const BufferContent& given,
                                      const Bytes& bytes, std::size_t first_index) {
  const Case& posed = question.posed;
  const auto expected = [&](std::size_t i) {
    const Element sum = combined(posed, call, first_index + i);
    if (!posed.is_rounded) return sum;
    const Element found = element_at(bytes, i, posed.type);
    return is_close(found.real, sum.real, posed) ? found : sum;
  };
  const std::optional<Difference> wrong = difference(bytes, posed.type, expected);
  if (!wrong) return std::nullopt;
  const Element right = combined(posed, call, first_index + wrong->index);
  const std::string sentence = place(question, rank, call, given.name, wrong->index) + " is " +
                               text_of(wrong->found, posed.type) + " instead of " + text_of(right, posed.type);
  if (!given.is_const && bytes == given.bytes && given.name != "output") {
    return Incident{diagnosis::kUntouched,
                    "rank " + std::to_string(rank) + ": " + given.name + " is what it was before the call", rank};
  }
  std::optional<Explanation> why = explain_memory(bytes, wrong->index, posed.type);
  if (!why) why = explain_sum(posed, call, first_index + wrong->index, wrong->found);
  if (!why) return Incident{diagnosis::kWrongResult, sentence, rank};
  return Incident{why->diagnosis, sentence + ": " + why->text, rank};
}

class ReduceTask : public Task {
 public:
  Question pose(const Case& posed, bool) const override {
    Question question = empty_question("reduce", posed);
    for (int rank = 0; rank < posed.world_size; ++rank) {
      for (std::size_t call = 0; call < static_cast<std::size_t>(posed.repetitions); ++call) {
        auto& buffers = question.buffers[static_cast<std::size_t>(rank)];
        buffers.push_back(
            {"input",
             array_of(posed.type, posed.count, [&](std::size_t i) { return reduction_input(posed, rank, call, i); }),
             true});
        buffers.push_back({"output", rank == posed.root ? unwritten(posed.bytes()) : Bytes{}, false});
      }
    }
    return question;
  }

  std::optional<Incident> judge(const Question& question, const RunResult& result) const override {
    const auto root = static_cast<std::size_t>(question.posed.root);
    for (std::size_t call = 0; call < static_cast<std::size_t>(question.posed.repetitions); ++call) {
      const std::size_t output = 2 * call + 1;
      if (auto wrong = judge_reduced(question, question.posed.root, call, question.buffers[root][output],
                                     result.buffers[root][output], 0)) {
        return wrong;
      }
    }
    return std::nullopt;
  }
};

// all_reduce (one buffer a call) and all_reduce_many (one for each tensor).
class AllReduceTask : public Task {
 public:
  explicit AllReduceTask(bool many) : many_(many) {}

  Question pose(const Case& posed, bool) const override {
    Question question = empty_question(many_ ? "all_reduce_many" : "all_reduce", posed);
    const std::vector<std::size_t> counts = counts_of(posed);
    for (int rank = 0; rank < posed.world_size; ++rank) {
      for (std::size_t call = 0; call < static_cast<std::size_t>(posed.repetitions); ++call) {
        std::size_t first = 0;
        for (std::size_t t = 0; t < counts.size(); first += counts[t++]) {
          question.buffers[static_cast<std::size_t>(rank)].push_back(
              {many_ ? "tensors[" + std::to_string(t) + "]" : "data",
               array_of(posed.type, counts[t],
                        [&](std::size_t i) { return reduction_input(posed, rank, call, first + i); }),
               false});
        }
      }
    }
    return question;
  }

  std::optional<Incident> judge(const Question& question, const RunResult& result) const override {
    const Case& posed = question.posed;
    std::vector<int> right;
    std::optional<Incident> first;
    for (int rank = 0; rank < posed.world_size; ++rank) {
      std::optional<Incident> wrong = judge_rank(question, result, rank);
      if (!wrong) right.push_back(rank);
      if (wrong && !first) first = std::move(wrong);
    }
    if (!first) return ranks_differ(question, result);
    if (right.size() == 1 && posed.world_size > 2) {
      first->diagnosis = diagnosis::kOnlyAtRoot;
      first->text = "only rank " + std::to_string(right[0]) + " has the result: " + first->text;
    }
    return first;
  }

 private:
  static std::vector<std::size_t> counts_of(const Case& posed) {
    return posed.counts.empty() && posed.parameter == 0 ? std::vector<std::size_t>{posed.count} : posed.counts;
  }

  static std::optional<Incident> judge_rank(const Question& question, const RunResult& result, int rank) {
    const std::vector<std::size_t> counts = counts_of(question.posed);
    const auto r = static_cast<std::size_t>(rank);
    std::size_t first = 0;
    for (std::size_t b = 0; b < question.buffers[r].size(); ++b) {
      if (b % counts.size() == 0) first = 0;
      const std::size_t call = b / counts.size();
      if (auto wrong = judge_reduced(question, rank, call, question.buffers[r][b], result.buffers[r][b], first)) {
        return wrong;
      }
      first += counts[b % counts.size()];
    }
    return std::nullopt;
  }

  static std::optional<Incident> ranks_differ(const Question& question, const RunResult& result) {
    const ElementType type = question.posed.type;
    for (int rank = 1; rank < question.posed.world_size; ++rank) {
      for (std::size_t b = 0; b < result.buffers[0].size(); ++b) {
        const Bytes& first = result.buffers[0][b];
        const Bytes& other = result.buffers[static_cast<std::size_t>(rank)][b];
        if (first == other) continue;
        const auto at =
            static_cast<std::size_t>(std::mismatch(first.begin(), first.end(), other.begin()).first - first.begin()) /
            size_of(type);
        const std::string name = question.buffers[0][b].name + "[" + std::to_string(at) + "]";
        return Incident{diagnosis::kRanksDiffer,
                        name + " is " + text_of(element_at(first, at, type), type) + " on rank 0 and " +
                            text_of(element_at(other, at, type), type) + " on rank " + std::to_string(rank) +
                            ": all ranks must hold the same bits, and each adds in an order of its own",
                        rank};
      }
    }
    return std::nullopt;
  }

  bool many_;
};

}  // namespace

std::unique_ptr<Task> reduce_task() { return std::make_unique<ReduceTask>(); }

std::unique_ptr<Task> all_reduce_task(bool many) { return std::make_unique<AllReduceTask>(many); }

}  // namespace tutti::labs
