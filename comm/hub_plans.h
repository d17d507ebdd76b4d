// HubPlans: where ranks share few processors, plans by which each processor takes its share of a star's messages.
//
// The hubs of algorithms/hubs.cc depend on which ranks run on the same processor, and all ranks have to agree on that;
// but the system moves ranks as it likes. So now and then an operation begins with an all_gather, among its own
// messages, of where the ranks run, and until the next time all take that for true: where it is not, operations take
// longer, and nothing else. The bits of a result depend on it nowhere.
//
// Who asks also moves, if ranks are spread unevenly (base/rank_spread.h).
// Thread-safety: as the executor's.
#pragma once

#include <tutti/comm/base/rank_spread.h>
#include <tutti/comm/schedule/executor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tutti::comm {

class HubPlans {
 public:
  static constexpr std::uint64_t kAskFirst = 16;  // operations; fewer are not worth it
  static constexpr std::uint64_t kAskEvery = 128;

  HubPlans(int rank, int world_size, RankSpread::Place place = RankSpread::system_place());

  /// Whether a star of these operations may have hubs: what all ranks answer alike, and short.
  bool takes(const Plan& plan, const Fingerprint& operation) const;

  /// What stands for `star`, the plan of an operation that it takes; `executor` is to run it next. May communicate, for
  /// `operation`, and throws what the executor throws then.
  const Plan& plan_for(const Plan& star, const Operation& operation, Executor& executor);

 private:
  void ask(const Operation& operation, Executor& executor);

  const int rank_, world_size_;
  RankSpread spread_;
  std::uint64_t operations_ = 0;
  std::vector<int> processors_;                           // of all ranks; empty: nobody has asked
  bool are_of_use_ = false;                               // a processor other than rank 0's has several ranks
  std::map<std::pair<OpKind, std::size_t>, Plan> plans_;  // by operation and count, for these processors
};

}  // namespace tutti::comm
