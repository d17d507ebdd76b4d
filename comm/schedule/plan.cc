#include <tutti/comm/schedule/plan.h>

#include <map>
#include <utility>

namespace tutti::comm {

Plan::Plan(Schedule schedule) : algorithm(schedule.algorithm), scratch_count(schedule.scratch_count) {
  // Messages to (or from) one peer keep their order: each send is posted after the one before, each receive begins when
  // the one before is complete.
  std::map<std::pair<bool, int>, std::uint32_t> last;  // (is send, peer) -> latest step
  for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) {
    PlanStep& current = steps.emplace_back();
    current.step = std::move(schedule.steps[i]);
    for (std::uint32_t earlier : current.step.after) {
      steps[earlier].on_complete.push_back(i);
      ++current.waits_for;
    }
    const Step::Kind kind = current.step.kind;
    if (kind == Step::Kind::Copy || kind == Step::Kind::Reduce) continue;
    const bool is_send = kind == Step::Kind::Send;
    const auto [it, first] = last.try_emplace({is_send, current.step.peer}, i);
    if (first) continue;
    PlanStep& previous = steps[it->second];
    (is_send ? previous.on_start : previous.on_complete).push_back(i);
    current.ordinal = previous.ordinal + 1;
    ++current.waits_for;
    it->second = i;
  }
}

}  // namespace tutti::comm
