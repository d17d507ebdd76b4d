// The functions of lab.h's macros: what each rank is given, and what a wrong result says.

#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/tasks/task.h>
#include <tutti/tools/labs/tasks/values.h>

#include <algorithm>
#include <cmath>

namespace tutti::labs {
namespace {

using Elements = std::function<Element(std::size_t)>;

/// One buffer of a call on one rank: what it holds before, and what it must hold afterwards.
struct Rule {
  std::string name;
  std::size_t count = 0;
  bool is_const = false;
  Elements input{};             // null: not written yet
  Elements expected{};          // null: not judged
  int from = -1;                // what is only moved: the rank whose elements are expected
  std::size_t first_index = 0;  // of a tensor, among the elements of all tensors
};

int left_of(int rank, const Case& posed) { return (rank + posed.world_size - 1) % posed.world_size; }

/// One array, or one for each tensor.
std::vector<Rule> all_reduce_rules(bool many, const Case& posed, int rank, std::size_t call) {
  std::vector<Rule> rules;
  std::size_t first = 0;
  for (const std::size_t count : many ? posed.counts : std::vector<std::size_t>{posed.count}) {
    rules.push_back({.name = many ? "tensors[" + std::to_string(rules.size()) + "]" : "data",
                     .count = count,
                     .input = [=, &posed](std::size_t i) { return reduction_input(posed, rank, call, first + i); },
                     .expected = [=, &posed](std::size_t i) { return combined(posed, call, first + i); },
                     .first_index = first});
    first += count;
  }
  return rules;
}

std::vector<Rule> reduce_rules(const Case& posed, int rank, std::size_t call) {
  Rule input{.name = "input", .count = posed.count, .is_const = true};
  input.input = [=, &posed](std::size_t i) { return reduction_input(posed, rank, call, i); };
  Rule output{.name = "output"};
  if (rank == posed.root) {
    output.count = posed.count;
    output.expected = [=, &posed](std::size_t i) { return combined(posed, call, i); };
  }
  return {input, output};
}

/// broadcast moves within `data`; shift from `outgoing` to `incoming`.
std::vector<Rule> move_rules(bool shift, const Case& posed, int rank, std::size_t call) {
  const int from = shift ? left_of(rank, posed) : posed.root;
  const Elements own = [=, &posed](std::size_t i) { return moved_input(posed, rank, call, i); };
  const Elements expected = [=, &posed](std::size_t i) { return moved_input(posed, from, call, i); };
  if (!shift) return {{.name = "data", .count = posed.count, .input = own, .expected = expected, .from = from}};
  return {{.name = "outgoing", .count = posed.count, .is_const = true, .input = own},
          {.name = "incoming", .count = posed.count, .expected = expected, .from = from}};
}

std::vector<Rule> rules_of(const std::string& function, const Case& posed, int rank, std::size_t call) {
  if (function == "reduce") return reduce_rules(posed, rank, call);
  if (function == "broadcast" || function == "shift") return move_rules(function == "shift", posed, rank, call);
  return all_reduce_rules(function == "all_reduce_many", posed, rank, call);
}

/// Rounded inputs: right up to rounding; whether ranks agree is judged apart.
bool matches(const Element& found, const Element& expected, const Case& posed) {
  if (!posed.is_rounded) return found == expected;
  const double unit = posed.type == ElementType::Float32 ? 0x1p-23 : 0x1p-52;
  return std::abs(found.real - expected.real) <= posed.world_size * unit * std::abs(expected.real);
}

/// What the first wrong element says. `where` is its place: "rank 2: data[5]".
Incident explain(const Question& question, int rank, std::size_t call, const Rule& rule, const Bytes& bytes,
                 std::size_t index, const std::string& where, bool is_untouched) {
  const Case& posed = question.posed;
  const std::string untouched = "rank " + std::to_string(rank) + ": " + rule.name + " is what it was before the call";
  const Element found = element_at(bytes, index, posed.type);
  const std::string value = text_of(found, posed.type), right = text_of(rule.expected(index), posed.type);
  const auto memory = explain_memory(bytes, index, posed.type);
  if (rule.from < 0) {
    if (is_untouched && rule.input) return {diagnosis::kUntouched, untouched, rank};
    const std::string sentence = where + " is " + value + " instead of " + right;
    const auto why = memory ? memory : explain_sum(posed, call, rule.first_index + index, found);
    return why ? Incident{why->diagnosis, sentence + ": " + why->text, rank}
               : Incident{diagnosis::kWrongResult, sentence, rank};
  }
  const std::string owner = "rank " + std::to_string(rule.from);
  if (is_untouched) return {diagnosis::kUntouched, untouched + "; it should be " + owner + "'s", rank};
  const std::string wanted = "element " + std::to_string(index) + " of " + owner;
  if (memory) return {memory->diagnosis, where + " should be " + wanted + ": " + memory->text, rank};
  if (const auto why = explain_moved(posed, found)) {
    return {diagnosis::kMisplaced, where + " should be " + wanted + ": " + why->text, rank};
  }
  return {diagnosis::kWrongResult, where + " is " + value + ", which is not " + wanted + " (" + right + ")", rank};
}

Question pose_arrays(const std::string& function, const Case& posed) {
  Question question{function, posed, {}, {}};
  for (int rank = 0; rank < posed.world_size; ++rank) {
    auto& buffers = question.buffers.emplace_back();
    for (std::size_t call = 0; call < static_cast<std::size_t>(posed.repetitions); ++call) {
      for (const Rule& rule : rules_of(function, posed, rank, call)) {
        buffers.push_back(
            {rule.name,
             rule.input ? array_of(posed.type, rule.count, rule.input) : unwritten(rule.count * size_of(posed.type)),
             rule.is_const});
      }
    }
  }
  return question;
}

std::optional<Incident> judge_rank(const Question& question, const RunResult& result, int rank) {
  const Case& posed = question.posed;
  const auto r = static_cast<std::size_t>(rank);
  std::size_t number = 0;
  for (std::size_t call = 0; call < static_cast<std::size_t>(posed.repetitions); ++call) {
    for (const Rule& rule : rules_of(question.function, posed, rank, call)) {
      const Bytes& bytes = result.buffers[r][number];
      const bool is_untouched = bytes == question.buffers[r][number++].bytes;
      for (std::size_t i = 0; rule.expected && i < rule.count; ++i) {
        if (matches(element_at(bytes, i, posed.type), rule.expected(i), posed)) continue;
        const std::string after = posed.repetitions > 1 ? " after call " + std::to_string(call + 1) : "";
        const std::string where =
            "rank " + std::to_string(rank) + ": " + rule.name + "[" + std::to_string(i) + "]" + after;
        return explain(question, rank, call, rule, bytes, i, where, is_untouched);
      }
    }
  }
  return std::nullopt;
}

std::optional<Incident> ranks_differ(const Question& question, const RunResult& result) {
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

std::optional<Incident> judge_arrays(const Question& question, const RunResult& result) {
  const int world_size = question.posed.world_size;
  const bool is_everywhere = question.function == "all_reduce" || question.function == "all_reduce_many";
  std::vector<int> right;
  std::optional<Incident> first;
  for (int rank = 0; rank < world_size; ++rank) {
    std::optional<Incident> wrong = judge_rank(question, result, rank);
    if (!wrong) right.push_back(rank);
    if (wrong && !first) first = std::move(wrong);
  }
  if (!first) return is_everywhere ? ranks_differ(question, result) : std::nullopt;
  if (is_everywhere && right.size() == 1 && world_size > 2) {
    first->diagnosis = diagnosis::kOnlyAtRoot;
    first->text = "only rank " + std::to_string(right[0]) + " has the result: " + first->text;
  }
  return first;
}

// Each rank is late in one call, by more than anything else takes.
Question pose_barrier(const Case& posed, bool is_cost) {
  Question question{"barrier", posed, {}, {}};
  Case& made = question.posed;
  question.buffers.resize(static_cast<std::size_t>(made.world_size));
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

std::optional<Incident> judge_barrier(const Question& question, const RunResult& result) {
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

}  // namespace

Question pose(const std::string& function, const Case& posed, bool is_cost) {
  return function == "barrier" ? pose_barrier(posed, is_cost) : pose_arrays(function, posed);
}

std::optional<Incident> judge(const Question& question, const RunResult& result) {
  return question.function == "barrier" ? judge_barrier(question, result) : judge_arrays(question, result);
}

}  // namespace tutti::labs
