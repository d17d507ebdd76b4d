// The implementation of ProcessGroup: checks arguments, numbers collectives, owns the plans and the group's failure.
//
// Collectives: prepare() on the caller's thread, then run() or run_async(). Point-to-point: guarded().
// Thread-safety: as process_group.h; record_failure() may be called by any thread.
#pragma once

#include <pthread.h>
#include <sys/types.h>
#include <tutti/comm/algorithms/tuning.h>
#include <tutti/comm/base/counts.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/settings.h>
#include <tutti/comm/failure/chaos.h>
#include <tutti/comm/failure/failure_monitor.h>
#include <tutti/comm/point_to_point/point_to_point.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/schedule/executor.h>
#include <tutti/comm/shared/shared_collectives.h>
#include <tutti/comm/trace.h>
#include <tutti/comm/transport/transport.h>
#include <tutti/comm/work_queue.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

namespace tutti::comm {

/// Fills options that are not set from the environment.
ProcessGroupOptions complete(ProcessGroupOptions options);

/// The complete options that all ranks of a group must have alike.
Settings settings_to_agree(const ProcessGroupOptions& options);

class ProcessGroup::Impl {
 public:
  /// `world_ranks` is given for a sub-group; its transport has been made for them, and it adds to its parent's `trace`,
  /// which may be null. Throws System if this is rank 0 and the trace file cannot be written.
  Impl(std::shared_ptr<Store> store, std::unique_ptr<Transport> transport, ProcessGroupOptions options,
       std::shared_ptr<TransportFactory> factory, std::shared_ptr<TraceLog> trace, std::vector<int> world_ranks = {});

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }
  bool forked() const { return forks_so_far_.load(std::memory_order_relaxed) != forks_; }

  /// This thread issues an operation as long as an Entry lives; another thread that enters meanwhile is refused
  /// (InvalidArgument). Two that enter within the same nanoseconds may both pass: an atomic exchange would cost short
  /// operations more than all their other checks.
  class Entry {
   public:
    explicit Entry(Impl& group) : group_(group) {
      const std::uintptr_t other = group.entered_by_.load(std::memory_order_relaxed);
      if (other != 0) nested_ = group.allow_nested(other);
      group.entered_by_.store(::pthread_self(), std::memory_order_relaxed);
    }
    ~Entry() {
      if (!nested_) group_.entered_by_.store(0, std::memory_order_relaxed);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    Impl* operator->() { return &group_; }

   private:
    Impl& group_;
    bool nested_ = false;  // in an operator or a callback of this thread's own operation
  };
  Entry enter() { return Entry(*this); }

  static constexpr const char* kSharedMemory = "shared";  // in place of an algorithm's name

  /// A collective as it was called, checked, with everything needed to run it later on any thread.
  struct Call {
    Fingerprint fingerprint;
    const void* input = nullptr;
    void* output = nullptr;
    std::shared_ptr<const Plan> plan;  // null: by shared memory
    const char* algorithm = kSharedMemory;
    Reduction reduction = ReduceOp::Sum;
    std::uint64_t bytes = 0;      // of the larger buffer, for the trace
    std::size_t scale_count = 0;  // Avg: elements of output to divide afterwards
    void* rounded = nullptr;      // an all_reduce_rounded's result
    std::size_t aside = 0;        // bytes of the output that is a block of the input, which the plan cannot have
  };

  /// Checks the buffers of a collective (process_group.cc) and numbers it. Small structs just written field by field
  /// are passed by reference: copying one stalls the CPU until all earlier stores are done.
  Call prepare(const Collective& collective);

  // Sub-groups: subgroups.cc.
  std::unique_ptr<Impl> split(int color, int key);
  std::unique_ptr<Impl> subgroup(std::span<const int> ranks);

  void run(const Call& call);
  Work run_async(Call call);

  /// Throws InvalidArgument unless `buffer` holds `count` elements of `dtype`.
  template <typename AnyBuffer>
  void require(OpKind op, const char* what, const AnyBuffer& buffer, std::size_t count, DType dtype) const {
    const bool fits =
        buffer.count == count && count < kMaxCount && (count == 0 || (buffer.dtype == dtype && buffer.data));
    if (!fits) refuse(op, what, buffer, count, dtype);
  }
  /// Throws InvalidArgument if the buffers share memory, unless the operation works in place and they lie as it wants.
  template <typename AnyBuffer>
  void require_apart(OpKind op, const AnyBuffer& input, const Buffer& output) const {
    const auto in = reinterpret_cast<std::uintptr_t>(input.data), out = reinterpret_cast<std::uintptr_t>(output.data);
    if (std::max(in, out) < std::min(in + input.nbytes(), out + output.nbytes())) refuse_overlap(op, input, output);
  }
  void check_peer(OpKind op, int peer, bool any_allowed) const {
    const bool is_rank = peer >= 0 && peer < world_size();
    if (!is_rank && !(any_allowed && peer == kAnySource))
      invalid(op, "there is no rank ", peer, " in a world of ", world_size());
  }
  /// Throws in a forked child, after a failure (when no collective is at work any more) and after shutdown().
  void check_usable() {
    if (forked() || failed_.load(std::memory_order_acquire) || closed_) refuse_use();
  }

  /// Runs a point-to-point call, of a Caller; its errors become the group's failure.
  template <typename F>
  auto guarded(const Fingerprint& operation, F&& call) {
    check_usable();
    Recorded recorded(recorder_, options_.timeout, operation, operation.count * size_of(operation.dtype));
    try {
      return call(recorded);
    } catch (const Error& error) {
      recorded.failed();
      fail_from_outside(error, operation.to_string());
      rethrow_failure();
    }
  }
  Fingerprint fingerprint_of(OpKind op, const ConstBuffer& data, int tag) const;
  /// The same of a call that has one buffer and one peer, once these are checked; `call` gets the messages, too.
  template <typename F>
  auto message(OpKind op, const ConstBuffer& data, int peer, int tag, F&& call) {
    check_peer(op, peer, /*any_allowed=*/op == OpKind::Recv);
    require(op, "data", data, data.count, data.dtype);
    return enter()->guarded(fingerprint_of(op, data, tag),
                            [&](Caller& caller) { return call(point_to_point_, caller); });
  }

  std::string algorithm_for(OpKind op, std::size_t count, DType dtype, int root);
  void use_algorithm(const std::string& name);
  std::string recent_operations() const;
  TuningPlace place() const;

  void shutdown();
  void abort(const std::string& reason);
  /// End of life without shutdown(): goodbye in good order if that is possible, else an abort that says why.
  void leave() noexcept;

 private:
  friend ProcessGroup;
  using Counts = std::span<const std::size_t>;
  /// Notes one operation in the recorder: that it runs, when it is announced or waits; that it is over, when this
  /// object's life ends.
  class Recorded final : public Caller {
   public:
    // Shorter operations mostly take no longer than some reads of the clock; only those that wait are timed.
    static constexpr std::uint64_t kBriefBytes = 4 * 1024;

    /// `operation` lives as long.
    Recorded(FlightRecorder& recorder, std::chrono::milliseconds timeout, const Fingerprint& operation,
             std::uint64_t bytes, const char* algorithm = "");
    ~Recorded();
    Recorded(const Recorded&) = delete;
    Recorded& operator=(const Recorded&) = delete;

    void failed() { end(TraceEvent::State::Failed); }  // and over, before a reader sees it
    Deadline deadline() override;
    void is_announced() override { begin(); }

   private:
    void begin() {
      if (ticket_ == 0) ticket_ = recorder_.begin(subject_, start_);
    }
    void end(TraceEvent::State state);

    FlightRecorder& recorder_;
    const std::chrono::milliseconds timeout_;
    const FlightRecorder::Subject subject_;
    TraceClock::time_point start_;
    std::uint64_t ticket_ = 0;  // 0: not noted yet
    bool over_ = false;
  };

  // Reports, and the trace file: process_group_end.cc.
  ClockOffset measure_clock();
  void collect_trace();
  void leave_own_trace() noexcept;
  void log_recent_operations() const;
  std::string operations_before(const std::string& failed) const;

  // Parts of prepare().
  struct Size {
    std::uint64_t count;  // as fingerprints have it
    DType dtype;
  };
  Size check(const Collective& collective) const;
  Size check_all_to_all_v(const Collective& collective) const;
  void check_rounded(const Collective& collective) const;
  std::size_t block_of_all(const ConstBuffer& input) const;
  /// Throws InvalidArgument unless there is one count for each rank; returns their sum.
  std::size_t require_counts(OpKind op, Counts counts) const;

  std::unique_ptr<Impl> form(const std::string& name, const std::vector<int>& ranks);
  void execute(const Call& call);
  void add_plan(Call& call, const Collective& collective);
  static void round_result(const Operation& operation);
  std::shared_ptr<const Plan> plan_for(OpKind op, DType dtype, std::size_t count, int root, Counts counts,
                                       Counts recv_counts, bool in_order);
  /// Whether the operation needs no plan: shared_ does it, as no algorithm was asked for.
  bool by_shared_memory(OpKind op, const Reduction& reduction) const;
  Problem problem_of(OpKind op, DType dtype, std::size_t count, int root, Counts counts) const;
  /// Rank 0's, fetched once; null if there is none, and in a sub-group, which does not wait for rank 0.
  const Tuning* tuning();
  // Why a call is refused: process_group.cc.
  [[noreturn]] void refuse_use();
  bool allow_nested(std::uintptr_t other_thread) const;
  void refuse_overlap(OpKind op, const ConstBuffer& input, const ConstBuffer& output) const;
  [[noreturn]] void refuse(OpKind op, const char* what, const ConstBuffer& buffer, std::size_t count,
                           DType dtype) const;
  template <typename... Parts>
  [[noreturn]] void invalid(OpKind op, const Parts&... why) const {
    throw Error(ErrorCode::InvalidArgument, monitor_.prefix(), comm::name(op), ": ", why...);
  }
  /// The first error makes the group unusable, here and, through the store and the closed connections, everywhere.
  void record_failure(const Error& error, const std::string& operation);
  /// The same for an error outside of collectives. On return no collective accesses the caller's buffers.
  void fail_from_outside(const Error& error, const std::string& operation);
  std::exception_ptr failure() const;
  [[noreturn]] void rethrow_failure() const;

  // Constant after construction, but for the timeout of the last goodbye.
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<TransportFactory> factory_;  // may be null: no sub-groups
  const std::string key_;                            // of its keys in store_
  const std::shared_ptr<Store> user_store_;
  const std::unique_ptr<Transport> transport_;
  const int rank_, world_size_;
  ProcessGroupOptions options_;
  const bool is_sub_group_;
  const std::vector<int> world_ranks_;
  const std::uint64_t group_hash_;
  const pid_t pid_;
  // Forks between the first process that called this and this one, now and when the group was formed. Counting costs
  // nothing; getpid() would be a system call in each operation.
  static inline std::atomic<int> forks_so_far_{0};
  static int forks();
  const int forks_;
  const std::shared_ptr<TraceLog> trace_log_;  // null: no trace file
  const bool writes_trace_;                    // the group that the others descend from does
  FlightRecorder recorder_;

  // Used by the thread that issues operations.
  std::atomic<std::uintptr_t> entered_by_{0};  // its pthread_t, while it does
  std::uint64_t seq_ = 0;
  Chaos chaos_;  // TUTTI_CHAOS; of the group of all ranks only
  int splits_ = 0;
  std::map<std::vector<int>, int> subgroups_;  // how many there have been of each list of ranks
  using PlanKey = std::tuple<OpKind, std::size_t, std::size_t, int, bool, std::vector<std::size_t>>;
  std::map<PlanKey, std::shared_ptr<const Plan>> plans_;
  std::atomic<bool> closed_{false};
  bool knows_tuning_ = false;
  std::shared_ptr<const Tuning> tuning_;

  mutable std::mutex failure_mutex_;
  std::exception_ptr failure_;  // guarded by failure_mutex_
  std::atomic<bool> failed_{false};

  FailureMonitor monitor_;
  Executor executor_;             // used by one task of queue_ at a time
  std::vector<std::byte> aside_;  // as executor_: Call::aside
  RegisteredHeap heap_;
  std::optional<SharedCollectives> shared_;  // as executor_; only where all ranks share memory
  PointToPoint point_to_point_;
  WorkQueue queue_;  // destroyed first: its tasks use everything above
};

}  // namespace tutti::comm
