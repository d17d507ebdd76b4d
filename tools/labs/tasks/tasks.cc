// The functions of lab.h's macros; the barrier, and what the others share.

#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/tasks/judging.h>

#include <algorithm>

namespace tutti::labs {

Question empty_question(const std::string& function, const Case& posed) {
  Question question{function, posed, {}, {}};
  question.buffers.resize(static_cast<std::size_t>(posed.world_size));
  return question;
}

std::string place(const Question& question, int rank, std::size_t call, const std::string& buffer, std::size_t index) {
  std::string text = "rank " + std::to_string(rank) + ": " + buffer + "[" + std::to_string(index) + "]";
  if (question.posed.repetitions > 1) text += " after call " + std::to_string(call + 1);
  return text;
}

namespace {

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
  static const auto reduce = reduce_task();
  static const auto all_reduce = all_reduce_task(false), all_reduce_many = all_reduce_task(true);
  static const auto broadcast = move_task(false), shift = move_task(true);
  static const BarrierTask barrier;
  if (function == "reduce") return reduce.get();
  if (function == "all_reduce") return all_reduce.get();
  if (function == "all_reduce_many") return all_reduce_many.get();
  if (function == "broadcast") return broadcast.get();
  if (function == "shift") return shift.get();
  if (function == "barrier") return &barrier;
  return nullptr;
}

}  // namespace tutti::labs
