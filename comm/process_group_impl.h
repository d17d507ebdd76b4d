// The inside of ProcessGroup: checks arguments, numbers collectives, owns the plans and the group's failure.
//
// Collectives: prepare() on the caller's thread, then run() or run_async(). Point-to-point: guarded().
// Thread-safety: as process_group.h; record_failure() may be called by any thread.
#pragma once

#include <sys/types.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/failure/failure_monitor.h>
#include <tutti/comm/point_to_point/point_to_point.h>
#include <tutti/comm/process_group.h>
#include <tutti/comm/schedule/executor.h>
#include <tutti/comm/schedule/tuning.h>
#include <tutti/comm/shared/shared_collectives.h>
#include <tutti/comm/transport/transport.h>
#include <tutti/comm/work_queue.h>

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace tutti::comm {

class ProcessGroup::Impl {
 public:
  Impl(std::shared_ptr<Store> store, std::unique_ptr<Transport> transport, ProcessGroupOptions options);

  int rank() const { return transport_->rank(); }
  int world_size() const { return transport_->world_size(); }
  std::chrono::milliseconds timeout() const { return options_.timeout; }
  const std::shared_ptr<Store>& store() const { return store_; }
  std::string transport_name() const { return std::string(transport_->name()); }
  RegisteredBuffer allocate(std::size_t nbytes) { return {heap_.allocate(nbytes), nbytes}; }
  PointToPoint& point_to_point() { return point_to_point_; }
  bool forked() const;

  /// A collective as it was called, checked, with everything needed to run it later on any thread.
  struct Call {
    Fingerprint fingerprint;
    const void* input = nullptr;
    void* output = nullptr;
    std::shared_ptr<const Plan> plan;  // null: by shared memory
    std::size_t scale_count = 0;       // Avg: elements of output to divide afterwards
  };

  // One per collective of process_group.h: checks the buffers. These stand in process_group.cc.
  Call broadcast(Buffer data, int root);
  Call reduce(ConstBuffer input, Buffer output, ReduceOp op, int root);
  Call all_reduce(Buffer data, ReduceOp op);
  Call gather(ConstBuffer input, Buffer output, int root);
  Call all_gather(ConstBuffer input, Buffer output);
  Call scatter(ConstBuffer input, Buffer output, int root);
  Call reduce_scatter(ConstBuffer input, Buffer output, ReduceOp op);
  Call all_to_all(ConstBuffer input, Buffer output);
  using Counts = std::span<const std::size_t>;
  Call gather_v(ConstBuffer block, Buffer whole, Counts counts, int root);
  Call scatter_v(ConstBuffer whole, Buffer block, Counts counts, int root);
  Call all_gather_v(ConstBuffer block, Buffer whole, Counts counts);
  Call barrier();

  Call prepare(OpKind op, ConstBuffer input, Buffer output, std::size_t count, ReduceOp reduce_op, int root,
               Counts counts = {});
  void run(const Call& call);
  Work run_async(Call call);

  /// Throws InvalidArgument unless `buffer` holds `count` elements of `dtype`.
  void require(OpKind op, const char* what, ConstBuffer buffer, std::size_t count, DType dtype) const;
  /// Throws InvalidArgument unless there is one count for each rank; returns their sum.
  std::size_t require_counts(OpKind op, Counts counts) const;
  void check_peer(OpKind op, int peer, bool any_allowed) const;
  /// Throws in a forked child, after a failure and after shutdown().
  void check_usable() const;

  /// Runs a point-to-point call; its errors become the group's failure.
  template <typename F>
  auto guarded(const Fingerprint& operation, F&& call) {
    check_usable();
    try {
      return call();
    } catch (const Error& error) {
      record_failure(error, operation.to_string());
      rethrow_failure();
    }
  }
  Fingerprint message(OpKind op, const ConstBuffer& data, int tag) const;

  std::string algorithm_for(OpKind op, std::size_t count, DType dtype, int root);
  void use_algorithm(const std::string& name);

  void shutdown();
  void abort(const std::string& reason);
  /// End of life without shutdown(): goodbye in good order if that is possible, else an abort that says why.
  void leave() noexcept;

 private:
  void execute(const Call& call);
  std::shared_ptr<const Plan> plan_for(OpKind op, DType dtype, std::size_t count, int root, Counts counts);
  /// Whether the operation needs no plan: shared_ does it, as no algorithm was asked for.
  bool by_shared_memory(OpKind op) const;
  algorithms::Problem problem_of(OpKind op, DType dtype, std::size_t count, int root, Counts counts) const;
  /// Rank 0's, asked for once.
  const Tuning* tuning();
  [[noreturn]] void invalid(OpKind op, const std::string& why) const;
  /// The first error makes the group unusable, here and, through the store and the closed connections, everywhere.
  void record_failure(const Error& error, const std::string& operation);
  [[noreturn]] void rethrow_failure() const;

  // Constant after construction, but for the timeout of the last goodbye.
  const std::shared_ptr<Store> store_;
  const std::unique_ptr<Transport> transport_;
  ProcessGroupOptions options_;
  std::string algorithm_;  // "": choose
  const std::uint64_t group_hash_;
  const pid_t pid_;
  const int forks_;  // of this process and its ancestors, when the group was formed

  // Used by the thread that issues operations.
  std::uint64_t seq_ = 0;
  using PlanKey = std::tuple<OpKind, std::size_t, std::size_t, int, std::vector<std::size_t>>;
  std::map<PlanKey, std::shared_ptr<const Plan>> plans_;
  std::atomic<bool> closed_{false};
  bool knows_tuning_ = false;
  std::shared_ptr<const Tuning> tuning_;

  mutable std::mutex failure_mutex_;
  std::exception_ptr failure_;  // guarded by failure_mutex_
  std::atomic<bool> failed_{false};

  FailureMonitor monitor_;
  Executor executor_;  // used by one task of queue_ at a time
  RegisteredHeap heap_;
  std::optional<SharedCollectives> shared_;  // as executor_; only where all ranks share memory
  PointToPoint point_to_point_;
  WorkQueue queue_;  // destroyed first: its tasks use everything above
};

}  // namespace tutti::comm
