// How a group gets the plan of an operation, and by which algorithm.
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/process_group_impl.h>

#include <algorithm>
#include <set>

namespace tutti::comm {
namespace {

constexpr std::size_t kPlansKept = 256;

/// Whether a rank may have to pass on what it receives, so that it pays to cut long messages. Between two ranks only
/// all_reduce does, which returns sums.
bool forwards(OpKind op, int world_size) { return world_size > 2 || op == OpKind::AllReduce; }

}  // namespace

Problem ProcessGroup::Impl::problem_of(OpKind op, DType dtype, std::size_t count, int root, Counts counts) const {
  return {.op = op == OpKind::Shutdown ? OpKind::Barrier : op,
          .rank = rank(),
          .world_size = world_size(),
          .count = count,
          .root = root,
          .segment_count = forwards(op, world_size()) ? options_.segment_bytes / size_of(dtype) : 0,
          .counts = {counts.begin(), counts.end()},
          .hosts = transport_->hosts(),
          .left_fold = options_.reproducible};
}

std::shared_ptr<const Plan> ProcessGroup::Impl::plan_for(OpKind op, DType dtype, std::size_t count, int root,
                                                         Counts counts, Counts recv_counts, bool in_order) {
  std::vector<std::size_t> all_counts(counts.begin(), counts.end());
  all_counts.insert(all_counts.end(), recv_counts.begin(), recv_counts.end());
  const PlanKey key(op, size_of(dtype), count, root, in_order, std::move(all_counts));
  if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
  if (plans_.size() >= kPlansKept) plans_.clear();
  Problem problem = problem_of(op, dtype, count, root, counts);
  problem.recv_counts = {recv_counts.begin(), recv_counts.end()};
  problem.in_order = in_order;
  auto plan = std::make_shared<Plan>(algorithms::select(problem, size_of(dtype), options_.algorithm, tuning()));
  if (op == OpKind::AllGather)
    plan->takes_input_in_place = reads_input_from(*plan, static_cast<std::size_t>(rank()) * count, count);
  plans_[key] = plan;
  return plan;
}

const Tuning* ProcessGroup::Impl::tuning() {
  if (knows_tuning_ || world_size() == 1 || is_sub_group_) return tuning_.get();
  try {
    tuning_ = published_tuning(*store_, key_, Deadline::after(options_.timeout));
  } catch (const Error& error) {
    fail_from_outside(error, "tuning");
    rethrow_failure();
  }
  knows_tuning_ = true;
  return tuning_.get();
}

std::string ProcessGroup::Impl::algorithm_for(OpKind op, std::size_t count, DType dtype, int root) {
  if (by_shared_memory(op, ReduceOp::Sum)) return std::string(kSharedMemory);
  const bool for_each_rank = has_counts(op) || op == OpKind::AllToAllV;
  const std::vector<std::size_t> counts(for_each_rank ? static_cast<std::size_t>(world_size()) : 0, count);
  Problem problem = problem_of(op, dtype, count, root, counts);
  if (op == OpKind::AllToAllV) problem.recv_counts = counts;
  return algorithms::select(problem, size_of(dtype), options_.algorithm, tuning()).algorithm;
}

TuningPlace ProcessGroup::Impl::place() const {
  const std::vector<int> hosts = transport_->hosts();
  const std::size_t number = std::set<int>(hosts.begin(), hosts.end()).size();
  return {std::string(transport_->name()), world_size(), std::max(1, static_cast<int>(number))};
}

void ProcessGroup::Impl::use_algorithm(const std::string& name) {
  options_.algorithm = name;
  plans_.clear();
}

}  // namespace tutti::comm
