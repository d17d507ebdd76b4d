// The functions of lab.h's macros.

#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/tasks/task.h>
#include <tutti/tools/labs/tasks/values.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tutti::labs {
namespace {

Question empty_question(const std::string& function, const Case& posed) {
  Question question{function, posed, {}, {}};
  question.buffers.resize(static_cast<std::size_t>(posed.world_size));
  return question;
}

// "rank 2, data[5]", with the call where there are several.
std::string place(const Question& question, int rank, std::size_t call, const std::string& buffer, std::size_t index) {
  std::string text = "rank " + std::to_string(rank) + ": " + buffer + "[" + std::to_string(index) + "]";
  if (question.posed.repetitions > 1) text += " after call " + std::to_string(call + 1);
  return text;
}

// The first element of a buffer that is not what it should be.
struct Difference {
  std::size_t index = 0;
  Element found{};
  std::size_t count = 0;  // of wrong elements
};
template <typename Expected>
std::optional<Difference> difference(const Bytes& bytes, ElementType type, const Expected& expected) {
  std::optional<Difference> first;
  for (std::size_t i = 0; i < bytes.size() / size_of(type); ++i) {
    const Element found = element_at(bytes, i, type);
    if (found == expected(i)) continue;
    if (!first) first = Difference{i, found, 0};
    ++first->count;
  }
  return first;
}

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

// broadcast and shift: elements that are only moved.
class MoveTask : public Task {
 public:
  explicit MoveTask(bool shift) : shift_(shift) {}

  Question pose(const Case& posed, bool) const override {
    Question question = empty_question(shift_ ? "shift" : "broadcast", posed);
    for (int rank = 0; rank < posed.world_size; ++rank) {
      for (std::size_t call = 0; call < static_cast<std::size_t>(posed.repetitions); ++call) {
        auto& buffers = question.buffers[static_cast<std::size_t>(rank)];
        buffers.push_back(
            {shift_ ? "outgoing" : "data",
             array_of(posed.type, posed.count, [&](std::size_t i) { return moved_input(posed, rank, call, i); }),
             shift_});
        if (shift_) buffers.push_back({"incoming", unwritten(posed.bytes()), false});
      }
    }
    return question;
  }

  std::optional<Incident> judge(const Question& question, const RunResult& result) const override {
    const Case& posed = question.posed;
    const std::size_t each = shift_ ? 2 : 1;
    for (int rank = 0; rank < posed.world_size; ++rank) {
      const int from = shift_ ? (rank + posed.world_size - 1) % posed.world_size : posed.root;
      for (std::size_t call = 0; call < static_cast<std::size_t>(posed.repetitions); ++call) {
        const std::size_t b = call * each + each - 1;
        const Bytes& bytes = result.buffers[static_cast<std::size_t>(rank)][b];
        const auto wrong =
            difference(bytes, posed.type, [&](std::size_t i) { return moved_input(posed, from, call, i); });
        if (wrong) return explain(question, rank, from, call, b, bytes, *wrong);
      }
    }
    return std::nullopt;
  }

 private:
  static Incident explain(const Question& question, int rank, int from, std::size_t call, std::size_t b,
                          const Bytes& bytes, const Difference& wrong) {
    const Case& posed = question.posed;
    const BufferContent& given = question.buffers[static_cast<std::size_t>(rank)][b];
    const std::string wanted = "element " + std::to_string(wrong.index) + " of rank " + std::to_string(from);
    const std::string where = place(question, rank, call, given.name, wrong.index);
    if (bytes == given.bytes) {
      return {diagnosis::kUntouched,
              "rank " + std::to_string(rank) + ": " + given.name +
                  " is what it was before the call; it should be rank " + std::to_string(from) + "'s",
              rank};
    }
    if (const auto why = explain_memory(bytes, wrong.index, posed.type)) {
      return {why->diagnosis, where + " should be " + wanted + ": " + why->text, rank};
    }
    if (const auto why = explain_moved(posed, wrong.found)) {
      return {diagnosis::kMisplaced, where + " should be " + wanted + ": " + why->text, rank};
    }
    return {diagnosis::kWrongResult,
            where + " is " + text_of(wrong.found, posed.type) + ", which is not " + wanted + " (" +
                text_of(moved_input(posed, from, call, wrong.index), posed.type) + ")",
            rank};
  }

  bool shift_;
};

class BarrierTask : public Task {
 public:
  // Each rank is late in one call, by more than anything else takes.
  Question pose(const Case& posed, bool is_cost) const override {
    Question question = empty_question("barrier", posed);
    Case& made = question.posed;
    if (is_cost) return question;
    made.repetitions = std::max(made.repetitions, made.world_size);
    question.late.assign(static_cast<std::size_t>(made.world_size),
                         std::vector<double>(static_cast<std::size_t>(made.repetitions), 0));
    for (int call = 0; call < made.repetitions; ++call) {
      question.late[static_cast<std::size_t>(call % made.world_size)][static_cast<std::size_t>(call)] =
          1000 * made.network.alpha;
    }
    return question;
  }

  std::optional<Incident> judge(const Question& question, const RunResult& result) const override {
    for (std::size_t call = 0; call < static_cast<std::size_t>(question.posed.repetitions); ++call) {
      const auto last = std::max_element(result.calls.begin(), result.calls.end(),
                                         [&](const auto& a, const auto& b) { return a[call].begin < b[call].begin; });
      for (std::size_t rank = 0; rank < result.calls.size(); ++rank) {
        if (result.calls[rank][call].end >= (*last)[call].begin) continue;
        return Incident{diagnosis::kBarrierLeaks,
                        "rank " + std::to_string(rank) + " has left barrier() before rank " +
                            std::to_string(last - result.calls.begin()) + " came to it (call " +
                            std::to_string(call + 1) + ")",
                        static_cast<int>(rank)};
      }
    }
    return std::nullopt;
  }
};

}  // namespace

const Task* task_of(const std::string& function) {
  static const ReduceTask reduce;
  static const AllReduceTask all_reduce(false), all_reduce_many(true);
  static const MoveTask broadcast(false), shift(true);
  static const BarrierTask barrier;
  if (function == "reduce") return &reduce;
  if (function == "all_reduce") return &all_reduce;
  if (function == "all_reduce_many") return &all_reduce_many;
  if (function == "broadcast") return &broadcast;
  if (function == "shift") return &shift;
  if (function == "barrier") return &barrier;
  return nullptr;
}

}  // namespace tutti::labs
