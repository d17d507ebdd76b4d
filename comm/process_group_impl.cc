#include <pthread.h>
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/base/counts.h>
#include <tutti/comm/base/log.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/bootstrap/handshake.h>
#include <tutti/comm/process_group_impl.h>
#include <tutti/comm/reduce/reduce.h>
#include <tutti/comm/store/prefix_store.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>

namespace tutti::comm {
namespace {

constexpr std::chrono::milliseconds kGoodbyeLimit(5000);
constexpr std::size_t kPlansKept = 256;
constexpr std::string_view kSharedMemory = "shared";  // what stands for the name of an algorithm
constexpr AlgorithmName kByMemory(kSharedMemory);

std::string or_environment(const std::string& option, const char* variable) {
  const char* value = std::getenv(variable);
  return option.empty() && value ? value : option;
}

ProcessGroupOptions complete(ProcessGroupOptions options, bool is_sub_group) {
  options.algorithm = or_environment(options.algorithm, "TUTTI_ALGO");
  if (!is_sub_group) options.trace_file = or_environment(options.trace_file, "TUTTI_TRACE");
  return options;
}

/// Whether a rank may have to pass on what it receives, so that it pays to cut long messages. Between two ranks only
/// all_reduce does, which returns sums.
bool forwards(OpKind op, int world_size) { return world_size > 2 || op == OpKind::AllReduce; }

/// How many processors all ranks of the group share, if they outnumber them; else 0. Only where messages take their
/// time.
int shared_processors(const Transport& transport) {
  const std::vector<int> hosts = transport.hosts();
  const bool one_host = !hosts.empty() && std::ranges::count(hosts, hosts.front()) == std::ssize(hosts);
  return one_host && transport.oversubscribed() ? allowed_processors() : 0;
}

std::vector<int> all_ranks(int world_size) {
  std::vector<int> ranks(static_cast<std::size_t>(world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

ProcessGroup::Impl::Impl(std::shared_ptr<Store> store, std::unique_ptr<Transport> transport,
                         ProcessGroupOptions options, std::shared_ptr<TransportFactory> factory,
                         std::shared_ptr<TraceLog> trace, std::vector<int> world_ranks)
    : store_(std::move(store)),
      user_store_(world_ranks.empty() ? store_ : std::make_shared<PrefixStore>(options.name + "/user", store_)),
      factory_(std::move(factory)),
      transport_(std::move(transport)),
      rank_(transport_->rank()),
      world_size_(transport_->world_size()),
      options_(complete(std::move(options), !world_ranks.empty())),
      is_sub_group_(!world_ranks.empty()),
      world_ranks_(world_ranks.empty() ? all_ranks(transport_->world_size()) : world_ranks),
      group_hash_(identity_hash(options_.name)),
      pid_(::getpid()),
      forks_(forks()),
      trace_log_(trace || options_.trace_file.empty() ? std::move(trace) : std::make_shared<TraceLog>()),
      writes_trace_(trace_log_ && world_ranks.empty()),
      recorder_(options_.name, trace_log_),
      monitor_(
          store_, options_.name, rank(), world_size(), [this](int peer) { return transport_->describe(peer); },
          std::move(world_ranks)),
      executor_(*transport_, monitor_),
      heap_(transport_->shared_memory()),
      point_to_point_(*transport_, monitor_,
                      {.group = group_hash_,
                       .timeout = options_.timeout,
                       .report_after = options_.report_after,
                       .on_failure = [this](const Error& error, const Fingerprint& operation) {
                         fail_from_outside(error, operation.to_string());
                       }}) {
  if (Neighbours* neighbours = transport_->shared_memory()) shared_.emplace(*neighbours, *transport_, monitor_, heap_);
  if (!is_sub_group_) chaos_ = Chaos(or_environment({}, "TUTTI_CHAOS"));
  if (writes_trace_ && rank() == 0) check_trace_file(options_.trace_file);
  if (rank() == 0 && world_size() > 1 && !is_sub_group_) {
    publish_tuning(*store_, options_.name, place(), Deadline::after(options_.timeout), shared_processors(*transport_));
  }
}

int ProcessGroup::Impl::forks() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++forks_so_far_; });
  if (registered != 0) throw Error(ErrorCode::System, "pthread_atfork: no memory to notice forks");
  return forks_so_far_.load(std::memory_order_relaxed);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::prepare(OpKind op, const ConstBuffer& input, const Buffer& output,
                                                     std::size_t count, const Reduction& reduction, int root,
                                                     const Counts& counts, const Counts& recv_counts) {
  check_usable();
  if (root < 0 || root >= world_size()) refuse_root(op, root);
  const DType& dtype = output.data || output.count > 0 ? output.dtype : input.dtype;
  if (!reduction.user() && !is_defined(reduction.op(), dtype)) invalid(op, refusal(reduction.op(), dtype));
  Call call;
  call.fingerprint = {group_hash_, seq_ + 1, count, root, op, dtype, reduction.op(), reduction.hash()};
  call.reduction = reduction;
  call.bytes = std::max(input.nbytes(), output.nbytes());
  call.input = input.data;
  call.output = output.data;
  if (!by_shared_memory(op, reduction)) add_plan(call, output.count, counts, recv_counts);
  if (!chaos_.empty() && op != OpKind::Shutdown) chaos_.begin_step(rank(), static_cast<std::int64_t>(seq_));
  ++seq_;  // last: a call that is refused takes no number
  return call;
}

void ProcessGroup::Impl::add_plan(Call& call, std::size_t output_count, const Counts& counts,
                                  const Counts& recv_counts) {
  const auto& [group, seq, count, root, op, dtype, reduce_op, user_op] = call.fingerprint;
  call.plan = plan_for(op, dtype, count, root, counts, recv_counts, call.reduction.keeps_order());
  const bool has_result = is_reduction(op) && (op != OpKind::Reduce || rank() == root);
  if (reduce_op == ReduceOp::Avg && has_result) call.scale_count = output_count;
}

ProcessGroup::Impl::Call ProcessGroup::Impl::prepare_in_place(Call call, const ConstBuffer& input,
                                                              const ConstBuffer& output) const {
  const auto& [block, whole] = input.count < output.count ? std::tie(input, output) : std::tie(output, input);
  const auto* begin = static_cast<const std::byte*>(whole.data);
  const bool in_place = block.count > 0 && block.data == begin + static_cast<std::size_t>(rank()) * block.nbytes();
  // In memory it is done in place. Most plans write to output before they have read all of input.
  if (in_place && call.plan && !call.plan->takes_input_in_place) call.aside = block.nbytes();
  return call;
}

bool ProcessGroup::Impl::by_shared_memory(OpKind op, const Reduction& reduction) const {
  return shared_ && options_.algorithm.empty() && !reduction.user() && SharedCollectives::takes(op);
}

algorithms::Problem ProcessGroup::Impl::problem_of(OpKind op, DType dtype, std::size_t count, int root,
                                                   Counts counts) const {
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
  algorithms::Problem problem = problem_of(op, dtype, count, root, counts);
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
    tuning_ = published_tuning(*store_, options_.name, Deadline::after(options_.timeout));
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
  algorithms::Problem problem = problem_of(op, dtype, count, root, counts);
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

void ProcessGroup::Impl::run(const Call& call) {
  queue_.run([&] { execute(call); });
}

Work ProcessGroup::Impl::run_async(Call call) {
  return queue_.submit([this, call = std::move(call)] { execute(call); });
}

void ProcessGroup::Impl::execute(const Call& call) {
  if (forked()) refuse_use();
  if (failed_.load(std::memory_order_acquire)) rethrow_failure();
  const AlgorithmName planned = call.plan ? AlgorithmName(call.plan->algorithm) : AlgorithmName();
  Recorded recorded(recorder_, options_.timeout, call.fingerprint, call.bytes, call.plan ? planned : kByMemory);
  std::byte* const aside = call.aside > 0 ? set_aside(call) : nullptr;
  const bool gathers = call.fingerprint.op == OpKind::AllGather;
  const Operation operation{.fingerprint = call.fingerprint,
                            .input = aside && gathers ? aside : call.input,
                            .output = aside && !gathers ? aside : call.output,
                            .caller = recorded,
                            .report_after = options_.report_after,
                            .user_op = call.reduction.user(),
                            .rounded = call.rounded};
  try {
    if (call.plan) {
      executor_.run(*call.plan, operation);
      if (aside && !gathers) std::memcpy(call.output, aside, call.aside);
      if (call.rounded) round_result(operation);
    } else {
      shared_->run(operation);
    }
  } catch (const Error& error) {
    recorded.failed();
    record_failure(error, call.fingerprint.to_string() + call.reduction.text());
    point_to_point_.fail(failure());
    rethrow_failure();
  }
  if (call.scale_count > 0) scale_down(call.output, call.scale_count, call.fingerprint.dtype, world_size());
}

std::byte* ProcessGroup::Impl::set_aside(const Call& call) {
  if (aside_.size() < call.aside) aside_.resize(call.aside);
  if (call.fingerprint.op == OpKind::AllGather) std::memcpy(aside_.data(), call.input, call.aside);
  return aside_.data();
}

void ProcessGroup::Impl::round_result(const Operation& operation) {
  auto* const rounded = static_cast<std::byte*>(operation.rounded);
  const auto* const sums = static_cast<const std::byte*>(operation.output);
  reduce_rounded({&rounded, 1}, {&sums, 1}, operation.fingerprint.count);
}

void ProcessGroup::Impl::refuse(OpKind op, const char* what, const ConstBuffer& buffer, std::size_t count,
                                DType dtype) const {
  if (buffer.count != count)
    invalid(op, std::string(what) + " holds " + std::to_string(buffer.count) + " elements, but " +
                    std::to_string(count) + " are needed");
  if (buffer.dtype != dtype)
    invalid(op, std::string(what) + " is " + std::string(comm::name(buffer.dtype)) + ", but the other buffer is " +
                    std::string(comm::name(dtype)));
  invalid(op, std::string(what) + " is a null pointer");
}

std::size_t ProcessGroup::Impl::require_counts(OpKind op, Counts counts) const {
  if (counts.size() != static_cast<std::size_t>(world_size()))
    invalid(op, "there are " + std::to_string(counts.size()) + " counts, but " + std::to_string(world_size()) +
                    " are needed, one for each rank");
  std::uint64_t total = 0;
  for (const std::size_t count : counts) {
    if (count >= kMaxTotalCount - total) invalid(op, "the counts add up to 2^40 elements or more; split the operation");
    total += count;
  }
  return total;
}

void ProcessGroup::Impl::refuse_peer(OpKind op, int peer) const {
  invalid(op, "there is no rank " + std::to_string(peer) + " in a world of " + std::to_string(world_size()));
}

void ProcessGroup::Impl::invalid(OpKind op, const std::string& why) const {
  throw Error(ErrorCode::InvalidArgument, monitor_.prefix() + std::string(comm::name(op)) + ": " + why);
}

void ProcessGroup::Impl::refuse_root(OpKind op, int root) const {
  invalid(op, "root " + std::to_string(root) + " is no rank of a world of " + std::to_string(world_size()));
}

void ProcessGroup::Impl::refuse_use() {
  if (forked())
    throw Error(ErrorCode::InvalidArgument,
                "process " + std::to_string(::getpid()) + " was forked from process " + std::to_string(pid_) +
                    ", to which this group belongs: form a new group after the fork, or use threads");
  if (failed_.load(std::memory_order_acquire)) {
    queue_.let_running_end();  // the caller may free its memory when it learns of the failure
    rethrow_failure();
  }
  throw Error(ErrorCode::Aborted, monitor_.prefix() + "the group has been shut down");
}

Fingerprint ProcessGroup::Impl::message(OpKind op, const ConstBuffer& data, int tag) const {
  return {.group = group_hash_, .count = data.count, .root = tag, .op = op, .dtype = data.dtype};
}

void ProcessGroup::Impl::shutdown() {
  if (writes_trace_ && !closed_) collect_trace();
  const Call goodbye = prepare(OpKind::Shutdown, {}, {}, 0, ReduceOp::Sum, 0);
  point_to_point_.drain(goodbye.fingerprint);
  run(goodbye);
  closed_ = true;
  log_recent_operations();
  transport_->close();
}

void ProcessGroup::Impl::abort(const std::string& reason) {
  if (!closed_) fail_from_outside(Error(ErrorCode::PeerLost, reason), "abort");
}

void ProcessGroup::Impl::leave() noexcept {
  if (failed_.load(std::memory_order_acquire) && writes_trace_) leave_own_trace();
  if (closed_ || failed_.load(std::memory_order_acquire) || (world_size() == 1 && !writes_trace_)) return;
  try {
    if (std::uncaught_exceptions() > 0) return abort("its program failed and left the group");
    options_.timeout = std::min(options_.timeout, kGoodbyeLimit);
    shutdown();
  } catch (const std::exception& error) {
    log(LogLevel::Warn, error.what());
  }
}

void ProcessGroup::Impl::record_failure(const Error& error, const std::string& operation) {
  const std::lock_guard lock(failure_mutex_);
  if (failure_) return;
  const std::string local = monitor_.prefix() + operation + ": " + error.what() + operations_before(operation);
  log_recent_operations();
  const bool second_hand = error.code() == ErrorCode::Aborted;
  const std::string cause = second_hand ? error.what() : monitor_.report(local);
  failure_ = cause == local
                 ? std::make_exception_ptr(Error(error.code(), local))
                 : std::make_exception_ptr(Error(
                       ErrorCode::Aborted, monitor_.prefix() + operation + " was aborted; first cause: " + cause));
  failed_.store(true, std::memory_order_release);
  transport_->close();
}

void ProcessGroup::Impl::fail_from_outside(const Error& error, const std::string& operation) {
  record_failure(error, operation);
  queue_.let_running_end();
  point_to_point_.fail(failure());
}

std::exception_ptr ProcessGroup::Impl::failure() const {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void ProcessGroup::Impl::rethrow_failure() const { std::rethrow_exception(failure()); }

}  // namespace tutti::comm
