#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/hub_plans.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace tutti::comm {
namespace {

constexpr int kEnoughRanks = 5;               // two processors take 4 ranks' messages as soon without hubs
constexpr std::size_t kMostBytes = 8 * 1024;  // which hubs pass on, of each rank
constexpr std::size_t kHubPlansKept = 64;

/// Elements that have room for a processor's number.
std::size_t number_count(DType dtype) { return (sizeof(int) + size_of(dtype) - 1) / size_of(dtype); }

}  // namespace

HubPlans::HubPlans(int rank, int world_size, RankSpread::Place place)
    : rank_(rank), world_size_(world_size), spread_(rank, std::move(place)) {}

bool HubPlans::takes(const Plan& plan, const Fingerprint& operation) const {
  const bool has_hubs = operation.op == OpKind::AllReduce || operation.op == OpKind::Barrier;
  return has_hubs && world_size_ >= kEnoughRanks && plan.algorithm == "star" &&
         operation.count * size_of(operation.dtype) <= kMostBytes;
}

const Plan& HubPlans::plan_for(const Plan& star, const Operation& operation, Executor& executor) {
  if (operations_++ % kAskEvery == kAskFirst) ask(operation, executor);
  if (!are_of_use_) return star;
  const auto& [op, count] = std::pair(operation.fingerprint.op, operation.fingerprint.count);
  if (const auto known = plans_.find({op, count}); known != plans_.end()) return known->second;
  if (plans_.size() >= kHubPlansKept) plans_.clear();
  const Problem problem{.op = op, .rank = rank_, .world_size = world_size_, .count = count, .hosts = processors_};
  Schedule schedule = op == OpKind::Barrier ? algorithms::hub_barrier(problem) : algorithms::hub_all_reduce(problem);
  return plans_.emplace(std::pair(op, count), Plan(std::move(schedule))).first->second;
}

/// By the star, which takes no more looks than it must.
void HubPlans::ask(const Operation& operation, Executor& executor) {
  const std::size_t count = number_count(operation.fingerprint.dtype);
  const std::size_t nbytes = count * size_of(operation.fingerprint.dtype);
  const auto ranks = static_cast<std::size_t>(world_size_);
  std::vector<std::byte> own(nbytes), all(nbytes * ranks);
  const int here = spread_.here();
  std::memcpy(own.data(), &here, sizeof here);
  const Plan plan(
      algorithms::star_all_gather({.op = OpKind::AllGather, .rank = rank_, .world_size = world_size_, .count = count}));
  executor.run(plan, {.fingerprint = operation.fingerprint,
                      .input = own.data(),
                      .output = all.data(),
                      .caller = operation.caller,
                      .report_after = operation.report_after});
  std::vector<int> processors(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    std::memcpy(&processors[rank], all.data() + rank * nbytes, sizeof(int));
  spread_.even_out(processors);
  if (processors == processors_) return;
  processors_ = std::move(processors);
  plans_.clear();
  const auto elsewhere = world_size_ - std::ranges::count(processors_, processors_.front());
  const std::set<int> different(processors_.begin(), processors_.end());
  are_of_use_ = elsewhere >= std::ssize(different);  // more than one on each of the others
}

}  // namespace tutti::comm
