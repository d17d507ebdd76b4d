// ProcessGroup: the ranks of a job, or some of them, and all their operations.
//
// Ordering contract: every rank calls the same collectives in the same order with the same counts, types, operators and
// roots; that is the only way calls can be matched. A call that differs is reported as Error{Mismatch} with both sides'
// values before a byte of the other side's is used: by a rank that waits for the other one in this operation. A rank
// that only sends (the root of broadcast and scatter, the others in reduce and gather) may return at once: of two
// roots, or of broadcast against all_reduce, both calls may. In shared memory the first operation after it in which all
// ranks wait for each other (barrier, all_reduce, ..., shutdown) reports it. Over TCP the first one does in which the
// receiver reads from that rank again; where none does, no rank reports it. Point-to-point messages travel on lanes of
// their own and may be mixed in freely.
//
// Threads: one thread at a time issues operations on a group. A second one that does so meanwhile gets InvalidArgument
// and has sent nothing (two that begin within nanoseconds may both get through). Work handles may be waited for from
// any thread. Use several groups for several threads. Synchronous collectives run on the caller's thread when nothing
// is queued; asynchronous ones are finished by a helper thread, or by the thread that waits for them, whichever comes
// first.
//
// Failure: every operation ends by its deadline. The first error poisons the group: this and every later call, on every
// rank, throws with the same first cause. Recovery is a new group. A forked child that touches a group gets an error.
//
// Sub-groups (split, subgroup) are groups of their own: they number and compare their operations by themselves, have
// connections of their own, and fail by themselves. A failure of a sub-group leaves its parent and its siblings usable,
// and a failure of the parent leaves its sub-groups usable; a process that is gone takes with it all groups it was in.
// They outlive their parent if need be; only the process with the store's server (the launcher's, else rank 0's) must
// be the last to go. Their error texts give each rank's number in the group and in the world.
//
// Ownership: buffers belong to the caller and must live until the call returns or the Work is complete. On failure the
// contents of output buffers are unspecified; inputs are never written. When a call throws the group's failure, none of
// this rank's operations touches them any more: unfinished ones have failed, too.
#pragma once

#include <tutti/comm/base/reduction.h>
#include <tutti/comm/base/types.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/store/store.h>
#include <tutti/comm/work.h>

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace tutti::comm {

class Transport;
class TransportFactory;
struct TuningPlace;  // algorithms/tuning.h

inline constexpr int kAnySource = -1;

/// All ranks of a group give the same: connect() compares all but name (which is where they meet), timeout,
/// report_after, bind_address and interface, which are each rank's own. TUTTI_TUNING counts on rank 0 alone.
struct ProcessGroupOptions {
  std::string name = "world";                                  // ranks of one group give the same name
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};  // deadline of each operation, and of forming the group
  std::chrono::milliseconds report_after{5000};                // a longer wait logs one line "waiting for ..."
  std::string algorithm{};     // a name of algorithms.md; "" = TUTTI_ALGO, else chosen (there)
  std::string transport{};     // "auto", "tcp", "shm", "ucx"; "" = TUTTI_TRANSPORT, else auto: shm within a host
  std::string bind_address{};  // "" = the address of the route that reached the store
  /// "" = TUTTI_IFACE, else none: the interface whose address this rank publishes; "eth0", "ib*", "10.1.0.0/16".
  std::string interface {};
  std::size_t segment_bytes = 256 * 1024;  // unit of overlap inside one message; see algorithms.md, "Segments"
  /// Reductions give bits that depend on the ranks' inputs only: every element is ((0 + 1) + 2) + ... in the order of
  /// the ranks, whatever `algorithm`, segment_bytes, the root, the operation or the transport. Equal on all ranks.
  /// Costs nothing in shared memory or between two ranks; more ranks over TCP take up to 1.2 times as long for
  /// vectors of more than 16 KiB, twice where many share few CPUs (algorithms.md).
  bool reproducible = false;
  /// Also by TUTTI_ENCRYPT=1. TLS 1.3 on all TCP connections between ranks, with a key from the job secret. Shared
  /// memory and the store's connections are as ever: what the store holds (addresses, causes of failures, the caller's
  /// own keys) can be read on the way. wire_format.md.
  bool encrypt = false;
  /// "" = TUTTI_TRACE, else none. At its end the group, together with its sub-groups, writes what all ranks have done
  /// to this file (trace.h). After a failure each rank leaves its own part beside it, as `<file>.rank<r>`. A later
  /// group's file replaces an earlier one's.
  std::string trace_file{};
};

/// Memory that the other ranks of this host can reach in place. Where all ranks of the group run on one host, these
/// copy nothing on the way if all give such memory: all_reduce, reduce_scatter (as input), all_gather (as output);
/// broadcast if the root does. Anywhere else it is memory like any other. Freed with the last copy of the handle, which
/// may outlive the group; not while an operation uses it. After an operation that failed, ranks that are late may still
/// write to it, until their own call fails.
struct RegisteredBuffer {
  std::shared_ptr<std::byte> memory;
  std::size_t nbytes = 0;

  std::byte* data() const { return memory.get(); }
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data()), nbytes / sizeof(T)};
  }
};

/// A collective as it is called. The functions of ProcessGroup say what each one's buffers are; `root` and what follows
/// it are for those that take them.
struct Collective {
  OpKind op{};
  ConstBuffer input{};  // none in broadcast, all_reduce and barrier
  Buffer output{};      // none in barrier
  int root = 0;
  Reduction reduction = ReduceOp::Sum;
  std::span<const std::size_t> counts{};       // of the v-forms; what all_to_all_v sends
  std::span<const std::size_t> recv_counts{};  // of all_to_all_v
  std::optional<Buffer> rounded{};             // all_reduce_rounded is an all_reduce with it
};

class ProcessGroup {
 public:
  /// Forms the group described by `world`: connects to the store (rank 0 starts it unless the launcher did), publishes
  /// this rank's address, and waits for all ranks. A world of one opens no socket.
  /// Throws Timeout naming the ranks that did not come, Unauthorized, Mismatch where options differ, System (address in
  /// use, ...).
  static std::unique_ptr<ProcessGroup> connect(const World& world, ProcessGroupOptions options = {});

  /// A group over an existing transport, of all ranks of the world; `store` carries failure notices and may be shared.
  /// Without `factory` it cannot have sub-groups.
  ProcessGroup(std::shared_ptr<Store> store, std::unique_ptr<Transport> transport, ProcessGroupOptions options,
               std::shared_ptr<TransportFactory> factory = nullptr);
  ~ProcessGroup();  // without shutdown(): goodbye, else abort; bounded, never throws; also after main(), in a global
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const;
  int world_size() const;
  std::chrono::milliseconds timeout() const;

  /// Unique in the job and equal on all ranks of the group: ProcessGroupOptions::name, "world/split3/0",
  /// "world/ranks-0.2#1".
  const std::string& name() const;

  /// The rank in the world of each rank of this group.
  std::span<const int> world_ranks() const;

  /// The store the group was formed with, for the caller's own keys; never null. A sub-group's keys are its own, under
  /// its name.
  const std::shared_ptr<Store>& store() const;

  /// "tcp", "shm", "shm+tcp" (shared memory within each host), "tcp+tls" and "shm+tcp+tls" (encrypted), "tcp+ucx"
  /// and "shm+tcp+ucx" (long payloads between hosts by UCX), "inproc" (threads of a test, and a world of one).
  std::string transport_name() const;

  /// Zeroed memory at a cache line's alignment. Local: ranks may allocate differently. 64 buffers at a time can be
  /// registered by a group; further ones are ordinary memory. Throws System if the host has not so much left.
  RegisteredBuffer allocate(std::size_t nbytes);

  // --- Sub-groups. They take over this group's options, share its listening port and its store, and open connections
  // when these are used. Any number of groups may exist, and be used by as many threads, at once.

  /// Collective: all ranks of this group call it. Ranks that give the same `color` become a group, in the order of
  /// their keys, and of their ranks here where keys are equal. A rank with a negative color gets none: nullptr.
  std::unique_ptr<ProcessGroup> split(int color, int key = 0);

  /// The group of `ranks` (of this group), rank i of which is ranks[i]. Only these ranks call it, with the same list;
  /// it returns without waiting for the others, and the group's first operation meets them. A member that forms several
  /// groups of the same ranks forms them in the same order as the others. InvalidArgument if a rank does not exist or
  /// is twice there, or this one is not.
  std::unique_ptr<ProcessGroup> subgroup(std::span<const int> ranks);

  // --- Collectives. A span is a buffer: all_reduce(std::span(values)). `count` is in elements and equal on all ranks.
  // Count 0 and a world of one work. Reductions take an operator of types.h or one of the caller's (UserOp in
  // reduction.h). InvalidArgument for 2^48 elements or more, and for input and output that share memory, but for what
  // is said to work in place.

  /// Any of those below. run_async() returns at once; the buffers must live until its Work is complete, counts are
  /// copied.
  void run(const Collective& call);
  Work run_async(const Collective& call);

  /// Root's `data` overwrites that of all others.
  void broadcast(Buffer data, int root) { run({.op = OpKind::Broadcast, .output = data, .root = root}); }
  Work broadcast_async(Buffer data, int root) {
    return run_async({.op = OpKind::Broadcast, .output = data, .root = root});
  }

  /// Root's `output` becomes the reduction of all inputs; other ranks pass an empty output, and their inputs are only
  /// read. input and output may be the same memory at the root.
  void reduce(ConstBuffer input, Buffer output, const Reduction& op, int root) {
    run({.op = OpKind::Reduce, .input = input, .output = output, .root = root, .reduction = op});
  }
  Work reduce_async(ConstBuffer input, Buffer output, const Reduction& op, int root) {
    return run_async({.op = OpKind::Reduce, .input = input, .output = output, .root = root, .reduction = op});
  }

  /// In place. Afterwards all ranks hold the same bits. InvalidArgument: Avg of integers or bool; BAnd, BOr or BXor of
  /// floating point. reduce/reduce.h says what each operator does to each type; Float16 and BFloat16 are added in float
  /// and rounded at every step of the algorithm. Wider sums need a wider type.
  void all_reduce(Buffer data, const Reduction& op = ReduceOp::Sum) {
    run({.op = OpKind::AllReduce, .output = data, .reduction = op});
  }
  Work all_reduce_async(Buffer data, const Reduction& op = ReduceOp::Sum) {
    return run_async({.op = OpKind::AllReduce, .output = data, .reduction = op});
  }

  /// `rounded` (Float32) becomes the sum of all ranks' `sums` (Float64), rounded once, at the end; zeros have no sign.
  /// All ranks hold the same bits. `sums` is unspecified afterwards, and must not overlap `rounded`. Where both are
  /// registered on all ranks of a host, each double is read once, and nothing but the result is written.
  void all_reduce_rounded(Buffer sums, Buffer rounded) {
    run({.op = OpKind::AllReduce, .output = sums, .rounded = rounded});
  }
  Work all_reduce_rounded_async(Buffer sums, Buffer rounded) {
    return run_async({.op = OpKind::AllReduce, .output = sums, .rounded = rounded});
  }

  /// Root's `output` holds world_size blocks of input.count elements, in rank order; others pass an empty output.
  void gather(ConstBuffer input, Buffer output, int root) {
    run({.op = OpKind::Gather, .input = input, .output = output, .root = root});
  }
  Work gather_async(ConstBuffer input, Buffer output, int root) {
    return run_async({.op = OpKind::Gather, .input = input, .output = output, .root = root});
  }

  /// `output` holds world_size blocks of input.count elements, in rank order. input may be this rank's block of output.
  void all_gather(ConstBuffer input, Buffer output) {
    run({.op = OpKind::AllGather, .input = input, .output = output});
  }
  Work all_gather_async(ConstBuffer input, Buffer output) {
    return run_async({.op = OpKind::AllGather, .input = input, .output = output});
  }

  /// Root's `input` holds world_size blocks of output.count elements; block r goes to rank r. Others pass an empty
  /// input.
  void scatter(ConstBuffer input, Buffer output, int root) {
    run({.op = OpKind::Scatter, .input = input, .output = output, .root = root});
  }
  Work scatter_async(ConstBuffer input, Buffer output, int root) {
    return run_async({.op = OpKind::Scatter, .input = input, .output = output, .root = root});
  }

  /// `input` holds world_size blocks of output.count elements; rank r's `output` becomes the reduction of all ranks'
  /// block r. The buffers must not overlap, but output may be this rank's block of input: only that is written then.
  /// Types and operators as for all_reduce.
  void reduce_scatter(ConstBuffer input, Buffer output, const Reduction& op = ReduceOp::Sum) {
    run({.op = OpKind::ReduceScatter, .input = input, .output = output, .reduction = op});
  }
  Work reduce_scatter_async(ConstBuffer input, Buffer output, const Reduction& op = ReduceOp::Sum) {
    return run_async({.op = OpKind::ReduceScatter, .input = input, .output = output, .reduction = op});
  }

  /// Both hold world_size blocks of equal length; block j of rank i's `input` becomes block i of rank j's `output`. The
  /// buffers must not overlap. InvalidArgument if input.count is no multiple of world_size.
  void all_to_all(ConstBuffer input, Buffer output) { run({.op = OpKind::AllToAll, .input = input, .output = output}); }
  Work all_to_all_async(ConstBuffer input, Buffer output) {
    return run_async({.op = OpKind::AllToAll, .input = input, .output = output});
  }

  // The v-forms: rank r has counts[r] elements, which may be 0. `counts` has world_size entries (InvalidArgument if
  // not, or if they add up to 2^40 or more), is the same on all ranks (Mismatch if not, unless a 24-bit checksum of
  // lists with equal totals collides), and is copied. `whole` stands for the blocks of all ranks, one behind the other
  // in rank order. The buffers must not overlap.

  /// Root's `whole` receives rank r's `block` of counts[r] elements; others pass an empty whole.
  void gather_v(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts, int root) {
    run({.op = OpKind::GatherV, .input = block, .output = whole, .root = root, .counts = counts});
  }
  Work gather_v_async(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts, int root) {
    return run_async({.op = OpKind::GatherV, .input = block, .output = whole, .root = root, .counts = counts});
  }

  /// Rank r's `block` of counts[r] elements comes from root's `whole`; others pass an empty whole.
  void scatter_v(ConstBuffer whole, Buffer block, std::span<const std::size_t> counts, int root) {
    run({.op = OpKind::ScatterV, .input = whole, .output = block, .root = root, .counts = counts});
  }
  Work scatter_v_async(ConstBuffer whole, Buffer block, std::span<const std::size_t> counts, int root) {
    return run_async({.op = OpKind::ScatterV, .input = whole, .output = block, .root = root, .counts = counts});
  }

  /// Every rank's `whole` receives the `block` of each rank.
  void all_gather_v(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts) {
    run({.op = OpKind::AllGatherV, .input = block, .output = whole, .counts = counts});
  }
  Work all_gather_v_async(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts) {
    return run_async({.op = OpKind::AllGatherV, .input = block, .output = whole, .counts = counts});
  }

  /// Rank r's `block` of counts[r] elements becomes the reduction of all ranks' block r of `whole`. Types and operators
  /// as for all_reduce.
  void reduce_scatter_v(ConstBuffer whole, Buffer block, std::span<const std::size_t> counts,
                        const Reduction& op = ReduceOp::Sum) {
    run({.op = OpKind::ReduceScatterV, .input = whole, .output = block, .reduction = op, .counts = counts});
  }
  Work reduce_scatter_v_async(ConstBuffer whole, Buffer block, std::span<const std::size_t> counts,
                              const Reduction& op = ReduceOp::Sum) {
    return run_async(
        {.op = OpKind::ReduceScatterV, .input = whole, .output = block, .reduction = op, .counts = counts});
  }

  /// `input` holds what this rank sends to each rank, send_counts[j] elements to rank j, in rank order; `output`
  /// becomes what each has sent to it, recv_counts[i] elements from rank i. Unlike those above, these counts are this
  /// rank's own; if sender and receiver differ, the length of the message shows it (Mismatch). A rank that has nothing
  /// to send or to receive still gives both buffers their type.
  void all_to_all_v(ConstBuffer input, std::span<const std::size_t> send_counts, Buffer output,
                    std::span<const std::size_t> recv_counts) {
    run({.op = OpKind::AllToAllV, .input = input, .output = output, .counts = send_counts, .recv_counts = recv_counts});
  }
  Work all_to_all_v_async(ConstBuffer input, std::span<const std::size_t> send_counts, Buffer output,
                          std::span<const std::size_t> recv_counts) {
    return run_async(
        {.op = OpKind::AllToAllV, .input = input, .output = output, .counts = send_counts, .recv_counts = recv_counts});
  }

  /// Returns when all ranks have called it.
  void barrier() { run({.op = OpKind::Barrier}); }
  Work barrier_async() { return run_async({.op = OpKind::Barrier}); }

  // --- Point-to-point. Messages between two ranks with equal tags arrive in the order they were sent.

  /// Small messages (up to 64 KiB) are buffered, up to 4 MiB for each receiver, and return at once; beyond that they
  /// wait for room, and larger ones for the matching receive.
  void send(ConstBuffer data, int destination, int tag = 0);
  Work isend(ConstBuffer data, int destination, int tag = 0);

  /// Waits for a message with `tag` from `source` (kAnySource: from any rank). Its type and exact count must be
  /// `data`'s (Mismatch otherwise). Returns the sender's rank.
  int recv(Buffer data, int source = kAnySource, int tag = 0);
  Work irecv(Buffer data, int source = kAnySource, int tag = 0);

  /// send() and recv() at the same time: no order among the ranks can make them wait for each other, whatever the
  /// length of the messages. destination and source may be the same rank, or this one. The buffers must not overlap.
  /// Returns the rank the message came from, when both are complete.
  int sendrecv(ConstBuffer outgoing, int destination, Buffer incoming, int source = kAnySource, int send_tag = 0,
               int recv_tag = 0);

  /// The algorithm (algorithms.md) that a collective with these arguments takes here: by
  /// ProcessGroupOptions::algorithm, else as rank 0's tuning file or the cost model says; equal on all ranks. Blocks
  /// until rank 0 has formed its group.
  std::string algorithm_for(OpKind op, std::size_t count, DType dtype, int root = 0);

  /// What a tuning file for this group must have been measured on.
  TuningPlace place() const;

  /// From the next collective on, as if ProcessGroupOptions::algorithm had been `name`; "" to choose. All ranks call it
  /// alike, with nothing in flight. For measuring.
  void use_algorithm(const std::string& name);

  /// Collective: waits until all ranks have finished their operations, then closes. Later calls throw Aborted.
  void shutdown();

  /// The latest operations of this rank in this group, oldest first, one a line: what they were, by which algorithm,
  /// and how long they took ("at once": up to 4 KiB, without a wait). Any thread, at any time, also after a failure.
  std::string recent_operations() const;

  /// Poisons the group on all ranks with `reason`, naming this rank; pending operations end within a second.
  void abort(const std::string& reason);

 private:
  class Impl;
  explicit ProcessGroup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::comm
