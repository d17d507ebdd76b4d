#include <sched.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/base/rank_spread.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

namespace tutti::comm {

RankSpread::Place RankSpread::system_place() { return {::sched_getcpu, allowed_processor_numbers, move_to_processor}; }

RankSpread::RankSpread(int self, Place place) : self_(self), place_(std::move(place)) {}

/// Half of the ranks that the fullest processor has more than the emptiest move there, the last ones: who comes first
/// does more for the others, where somebody does.
void RankSpread::even_out(std::span<const int> processors) {
  const auto ranks_on = [&](int processor) { return std::ranges::count(processors, processor); };
  const std::vector<int> allowed = place_.allowed();
  const std::set<int> used(processors.begin(), processors.end());
  if (allowed.empty() || *used.begin() < 0) return;
  const int fullest = *std::ranges::max_element(used, {}, ranks_on);
  const int emptiest = *std::ranges::min_element(allowed, {}, ranks_on);
  const auto too_many = (ranks_on(fullest) - ranks_on(emptiest)) / 2;
  uneven_ = too_many > 0 ? uneven_ + 1 : 0;
  const auto self = static_cast<std::size_t>(self_);
  if (!std::has_single_bit(uneven_) || processors[self] != fullest) return;
  if (std::ranges::count(processors.subspan(self + 1), fullest) < too_many) place_.move_to(emptiest);
}

}  // namespace tutti::comm
