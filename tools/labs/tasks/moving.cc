// broadcast and shift: elements that are only moved; a wrong one tells where it belongs.

#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/tasks/judging.h>

namespace tutti::labs {
namespace {

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

}  // namespace

std::unique_ptr<Task> move_task(bool shift) { return std::make_unique<MoveTask>(shift); }

}  // namespace tutti::labs
