#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/base/processors.h>
#include <tutti/comm/bootstrap/rendezvous.h>
#include <tutti/comm/process_group_impl.h>
#include <tutti/comm/reduce/reduce.h>
#include <tutti/comm/store/prefix_store.h>
#include <tutti/comm/wire/handshake.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>

namespace tutti::comm {
namespace {

std::string or_environment(const std::string& option, const char* variable) {
  const char* value = std::getenv(variable);
  return option.empty() && value ? value : option;
}

/// How many CPUs all ranks of the group share, if they are on one host and outnumber them; else 0.
int shared_processors(const Transport& transport) {
  const std::vector<int> hosts = transport.hosts();
  const bool one_host = !hosts.empty() && std::ranges::count(hosts, hosts.front()) == std::ssize(hosts);
  return one_host && transport.oversubscribed() ? allowed_processors() : 0;
}

constexpr std::size_t kPlansKept = 256;
// Operations between two looks for connections, of a rank that never waits long enough to look: a system call.
constexpr std::uint64_t kOperationsPerService = 1024;

/// Whether a rank may have to pass on what it receives, so that it pays to cut long messages. Between two ranks only
/// all_reduce does, which returns sums.
bool forwards(OpKind op, int world_size) { return world_size > 2 || op == OpKind::AllReduce; }

std::vector<int> all_ranks(int world_size) {
  std::vector<int> ranks(static_cast<std::size_t>(world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

ProcessGroupOptions complete(ProcessGroupOptions options) {
  options.algorithm = or_environment(options.algorithm, "TUTTI_ALGO");
  options.trace_file = or_environment(options.trace_file, "TUTTI_TRACE");
  options.encrypt = encryption_choice(options.encrypt);
  return options;
}

Settings settings_to_agree(const ProcessGroupOptions& options) {
  // A new option does not compile here until it is compared below, or left to each rank: these are the addresses a rank
  // listens at, how long it waits, and the name, which is where the ranks meet.
  const auto& [name, timeout, report_after, algorithm, transport, bind_address, interface, segment_bytes, reproducible,
               encrypt, trace_file] = options;
  const auto yes_no = [](bool value) -> std::string { return value ? "yes" : "no"; };
  const auto or_auto = [](const std::string& value) { return value.empty() ? "auto" : value; };
  return {{"algorithm (TUTTI_ALGO)", or_auto(algorithm)},
          {"transport (TUTTI_TRANSPORT)", or_auto(or_environment(transport, "TUTTI_TRANSPORT"))},
          {"segment_bytes", std::to_string(segment_bytes)},
          {"reproducible", yes_no(reproducible)},
          {"encrypt (TUTTI_ENCRYPT)", yes_no(encrypt)},
          {"trace (TUTTI_TRACE)", yes_no(!trace_file.empty())},
          {"wire version", std::to_string(kWireVersion)}};
}

ProcessGroup::Impl::Impl(std::shared_ptr<Store> store, std::unique_ptr<Transport> transport,
                         ProcessGroupOptions options, std::shared_ptr<TransportFactory> factory,
                         std::shared_ptr<TraceLog> trace, std::vector<int> world_ranks)
    : store_(std::move(store)),
      factory_(std::move(factory)),
      key_(factory_ ? factory_->key_of(options.name) : options.name),
      user_store_(world_ranks.empty() ? store_ : std::make_shared<PrefixStore>(key_ + "/user", store_)),
      transport_(std::move(transport)),
      rank_(transport_->rank()),
      world_size_(transport_->world_size()),
      options_(std::move(options)),
      is_sub_group_(!world_ranks.empty()),
      world_ranks_(world_ranks.empty() ? all_ranks(transport_->world_size()) : world_ranks),
      group_hash_(identity_hash(options_.name)),
      pid_(::getpid()),
      forks_(forks()),
      trace_log_(trace || options_.trace_file.empty() ? std::move(trace) : std::make_shared<TraceLog>()),
      writes_trace_(trace_log_ && world_ranks.empty()),
      recorder_(options_.name, trace_log_),
      monitor_(
          store_, key_, rank(), world_size(), [this](int peer) { return transport_->describe(peer); },
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
  if (rank() == 0) chaos_.warn_of_absent_ranks(world_size());
  if (writes_trace_ && rank() == 0) {
    try {
      check_trace_file(options_.trace_file);
    } catch (const Error& error) {
      monitor_.report(monitor_.prefix() + error.what());  // the others wait for this rank
      throw;
    }
  }
  if (rank() == 0 && world_size() > 1 && !is_sub_group_) {
    publish_tuning(*store_, key_, place(), Deadline::after(options_.timeout), shared_processors(*transport_));
  }
}

int ProcessGroup::Impl::forks() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++forks_so_far_; });
  if (registered != 0) throw Error(ErrorCode::System, "pthread_atfork: no memory to notice forks");
  return forks_so_far_.load(std::memory_order_relaxed);
}

ProcessGroup::Impl::Recorded::Recorded(FlightRecorder& recorder, std::chrono::milliseconds timeout,
                                       const Fingerprint& operation, std::uint64_t bytes, const char* algorithm)
    : recorder_(recorder),
      timeout_(timeout),
      subject_{.operation = operation, .bytes = bytes, .algorithm = algorithm},
      start_(bytes > kBriefBytes || recorder.keeps_all() ? TraceClock::now() : TraceEvent::kNotTimed) {}

ProcessGroup::Impl::Recorded::~Recorded() {
  if (!over_) end(TraceEvent::State::Done);
}

Deadline ProcessGroup::Impl::Recorded::deadline() {
  begin();
  if (start_ == TraceEvent::kNotTimed) recorder_.waits(ticket_, subject_, start_ = TraceClock::now());
  return Deadline(start_ + timeout_);
}

void ProcessGroup::Impl::Recorded::end(TraceEvent::State state) {
  over_ = true;
  begin();
  recorder_.end(ticket_, subject_, start_, state);
}

ProcessGroup::Impl::Call ProcessGroup::Impl::prepare(const Collective& c) {
  const auto [count, dtype] = check(c);
  check_usable();
  const int root = has_root(c.op) ? c.root : 0;
  if (root < 0 || root >= world_size()) invalid(c.op, "root ", root, " is no rank of a world of ", world_size());
  require_apart(c.op, c.input, c.output);
  if (!c.reduction.user() && !is_defined(c.reduction.op(), dtype)) invalid(c.op, refusal(c.reduction.op(), dtype));
  Call call;
  call.fingerprint = {group_hash_, seq_ + 1, count, root, c.op, dtype, c.reduction.op(), c.reduction.hash()};
  call.reduction = c.reduction;
  call.bytes = std::max(c.input.nbytes(), c.output.nbytes());
  call.input = c.input.data;
  call.output = c.output.data;
  if (!by_shared_memory(c.op, c.reduction)) add_plan(call, c);
  if (c.rounded) {
    call.fingerprint.root = kRounded;
    call.rounded = c.rounded->data;
  }
  if (!chaos_.empty() && c.op != OpKind::Shutdown) chaos_.begin_step(rank(), static_cast<std::int64_t>(seq_));
  ++seq_;  // last: a call that is refused takes no number
  return call;
}

void ProcessGroup::Impl::add_plan(Call& call, const Collective& c) {
  const auto& [group, seq, count, root, op, dtype, reduce_op, user_op] = call.fingerprint;
  call.plan = plan_for(op, dtype, count, root, c.counts, c.recv_counts, call.reduction.keeps_order());
  call.algorithm = call.plan->algorithm.data();
  const bool has_result = is_reduction(op) && (op != OpKind::Reduce || rank() == root);
  if (reduce_op == ReduceOp::Avg && has_result) call.scale_count = c.output.count;
  if (op != OpKind::ReduceScatter) return;
  const std::size_t nbytes = c.output.nbytes();
  const auto* own_block = static_cast<const std::byte*>(c.input.data) + static_cast<std::size_t>(rank()) * nbytes;
  if (c.output.data == own_block) call.aside = nbytes;  // plans write to output before they have read all of input
}

bool ProcessGroup::Impl::by_shared_memory(OpKind op, const Reduction& reduction) const {
  return shared_ && options_.algorithm.empty() && !reduction.user() && SharedCollectives::takes(op);
}

void ProcessGroup::Impl::run(const Call& call) {
  if (const WorkQueue::Turn turn(queue_); turn.taken()) return execute(call);
  queue_.submit([&] { execute(call); }).wait();
}

Work ProcessGroup::Impl::run_async(Call call) {
  return queue_.submit([this, call = std::move(call)] { execute(call); });
}

void ProcessGroup::Impl::execute(const Call& call) {
  if (forked()) refuse_use();
  if (failed_.load(std::memory_order_acquire)) rethrow_failure();
  Recorded recorded(recorder_, options_.timeout, call.fingerprint, call.bytes, call.algorithm);
  if (aside_.size() < call.aside) aside_.resize(call.aside);
  const Operation operation{.fingerprint = call.fingerprint,
                            .input = call.input,
                            .output = call.aside > 0 ? aside_.data() : call.output,
                            .caller = recorded,
                            .report_after = options_.report_after,
                            .user_op = call.reduction.user(),
                            .rounded = call.rounded};
  try {
    if (call.plan) {
      executor_.run(*call.plan, operation);
      if (call.aside > 0) std::memcpy(call.output, aside_.data(), call.aside);
      if (call.rounded) round_result(operation);
      if (shared_) shared_->note_messages(call.fingerprint);
    } else {
      shared_->run(operation);
    }
    if (call.fingerprint.seq % kOperationsPerService == 0) transport_->service();
  } catch (const Error& error) {
    recorded.failed();
    record_failure(error, call.fingerprint.to_string() + call.reduction.text());
    point_to_point_.fail(failure());
    rethrow_failure();
  }
  if (call.scale_count > 0) scale_down(call.output, call.scale_count, call.fingerprint.dtype, world_size());
}

void ProcessGroup::Impl::round_result(const Operation& operation) {
  auto* const rounded = static_cast<std::byte*>(operation.rounded);
  const auto* const sums = static_cast<const std::byte*>(operation.output);
  reduce_rounded({&rounded, 1}, {&sums, 1}, operation.fingerprint.count);
}

Fingerprint ProcessGroup::Impl::fingerprint_of(OpKind op, const ConstBuffer& data, int tag) const {
  return {.group = group_hash_, .count = data.count, .root = tag, .op = op, .dtype = data.dtype};
}

// --- Plans

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
  auto schedule = algorithms::select(problem, size_of(dtype), options_.algorithm, tuning());
  return plans_[key] = std::make_shared<const Plan>(std::move(schedule));
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
  if (by_shared_memory(op, ReduceOp::Sum)) return kSharedMemory;
  const bool for_each_rank = has_counts(op) || op == OpKind::AllToAllV;
  const std::vector<std::size_t> counts(for_each_rank ? static_cast<std::size_t>(world_size()) : 0, count);
  const Counts recv_counts = op == OpKind::AllToAllV ? Counts(counts) : Counts();
  return std::string(plan_for(op, dtype, count, root, counts, recv_counts, false)->algorithm);
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
