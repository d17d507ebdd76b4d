// ProcessGroup: the ranks of a job, and everything they can do together.
//
// Ordering contract: every rank calls the same collectives in the same order with the same counts, types, operators and
// roots; that is the only way calls can be matched. A call that differs is reported as Error{Mismatch} with both sides'
// values before a byte is reduced. Point-to-point messages travel on lanes of their own and may be mixed in freely.
//
// Threads: one thread at a time issues operations on a group; Work handles may be waited for from any thread. Use
// several groups for several threads. Synchronous collectives run on the caller's thread when nothing is queued;
// asynchronous ones are finished by a helper thread, or by the thread that waits for them, whichever comes first.
//
// Failure: every operation ends by its deadline. The first error poisons the group: this and every later call, on every
// rank, throws with the same first cause. Recovery is a new group. A forked child that touches a group gets an error.
//
// Ownership: buffers belong to the caller and must live until the call returns or the Work is complete. On failure the
// contents of output buffers are unspecified; inputs are never written.
#pragma once

#include <tutti/comm/base/types.h>
#include <tutti/comm/bootstrap/world.h>
#include <tutti/comm/store/store.h>
#include <tutti/comm/work.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>

namespace tutti::comm {

class Transport;
class InprocNetwork;

inline constexpr int kAnySource = -1;

struct ProcessGroupOptions {
  std::string name = "world";                                  // ranks of one group give the same name
  std::chrono::milliseconds timeout{std::chrono::minutes(5)};  // deadline of each operation, and of forming the group
  std::chrono::milliseconds report_after{5000};                // a longer wait logs one line "waiting for ..."
  std::string algorithm{};                 // a name of algorithms.md; "" = TUTTI_ALGO, else chosen by size
  std::string transport{};                 // "auto", "tcp", "shm"; "" = TUTTI_TRANSPORT, else auto: shm within a host
  std::string bind_address{};              // "" = the address of the route that reached the store
  std::size_t segment_bytes = 256 * 1024;  // unit of overlap inside one message
};

/// Memory that the other ranks of this host can reach in place: collectives on it copy nothing where all ranks of the
/// group run on one host and all give such memory. Anywhere else it is memory like any other. Freed with the last copy
/// of the handle, which may outlive the group; not while an operation uses it.
struct RegisteredBuffer {
  std::shared_ptr<std::byte> memory;
  std::size_t nbytes = 0;

  std::byte* data() const { return memory.get(); }
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data()), nbytes / sizeof(T)};
  }
};

class ProcessGroup {
 public:
  /// Forms the group described by `world`: connects to the store (rank 0 starts it unless the launcher did), publishes
  /// this rank's address, and waits for all ranks. A world of one opens no socket.
  /// Throws Timeout naming the ranks that did not come, Unauthorized, System (address in use, ...).
  static std::unique_ptr<ProcessGroup> connect(const World& world, ProcessGroupOptions options = {});

  /// A group over an existing transport; `store` carries failure notices and may be shared.
  ProcessGroup(std::shared_ptr<Store> store, std::unique_ptr<Transport> transport, ProcessGroupOptions options);
  ~ProcessGroup();  // without shutdown(): abort; bounded, never throws
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const;
  int world_size() const;
  std::chrono::milliseconds timeout() const;

  /// The store the group was formed with, for the caller's own keys; never null.
  const std::shared_ptr<Store>& store() const;

  /// "tcp", "shm", "shm+tcp" (shared memory within each host), "inproc" (threads of a test, and a world of one).
  std::string transport_name() const;

  /// Zeroed memory at a cache line's alignment. Local: ranks may allocate differently. 64 buffers at a time can be
  /// registered by a group; further ones are ordinary memory. Throws System if there is no memory.
  RegisteredBuffer allocate(std::size_t nbytes);

  // --- Collectives. `count` is in elements and equal on all ranks. Count 0 and a world of one work.
  // -------------------

  /// Root's `data` overwrites everybody else's.
  void broadcast(Buffer data, int root);
  Work broadcast_async(Buffer data, int root);

  /// Root's `output` becomes the reduction of all inputs; other ranks pass an empty output, and their inputs are only
  /// read. input and output may be the same memory at the root.
  void reduce(ConstBuffer input, Buffer output, ReduceOp op, int root);
  Work reduce_async(ConstBuffer input, Buffer output, ReduceOp op, int root);

  /// In place. Afterwards all ranks hold the same bits. InvalidArgument: Avg of integers or bool; BAnd, BOr or BXor of
  /// floating point. reduce/reduce.h says what each operator does to each type; Float16 and BFloat16 are added in float
  /// and rounded at every step of the algorithm. Wider sums need a wider type.
  void all_reduce(Buffer data, ReduceOp op = ReduceOp::Sum);
  Work all_reduce_async(Buffer data, ReduceOp op = ReduceOp::Sum);

  /// Root's `output` holds world_size blocks of input.count elements, in rank order; others pass an empty output.
  void gather(ConstBuffer input, Buffer output, int root);
  Work gather_async(ConstBuffer input, Buffer output, int root);

  /// `output` holds world_size blocks of input.count elements, in rank order.
  void all_gather(ConstBuffer input, Buffer output);
  Work all_gather_async(ConstBuffer input, Buffer output);

  /// Root's `input` holds world_size blocks of output.count elements; block r goes to rank r. Others pass an empty
  /// input.
  void scatter(ConstBuffer input, Buffer output, int root);
  Work scatter_async(ConstBuffer input, Buffer output, int root);

  /// `input` holds world_size blocks of output.count elements; rank r's `output` becomes the reduction of all ranks'
  /// block r. The buffers must not overlap. Types and operators as for all_reduce.
  void reduce_scatter(ConstBuffer input, Buffer output, ReduceOp op = ReduceOp::Sum);
  Work reduce_scatter_async(ConstBuffer input, Buffer output, ReduceOp op = ReduceOp::Sum);

  /// Both hold world_size blocks of equal length; block j of rank i's `input` becomes block i of rank j's `output`. The
  /// buffers must not overlap. InvalidArgument if input.count is no multiple of world_size.
  void all_to_all(ConstBuffer input, Buffer output);
  Work all_to_all_async(ConstBuffer input, Buffer output);

  // The v-forms: rank r has counts[r] elements, which may be 0. `counts` has world_size entries (InvalidArgument if
  // not, or if they add up to 2^40 or more), is the same on all ranks (Mismatch if not, unless a 24-bit checksum of
  // lists with equal totals collides), and is copied. `whole` stands for the blocks of all ranks, one behind the other
  // in rank order. The buffers must not overlap.

  /// Root's `whole` receives rank r's `block` of counts[r] elements; others pass an empty whole.
  void gather_v(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts, int root);
  Work gather_v_async(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts, int root);

  /// Rank r's `block` of counts[r] elements comes from root's `whole`; others pass an empty whole.
  void scatter_v(ConstBuffer whole, Buffer block, std::span<const std::size_t> counts, int root);
  Work scatter_v_async(ConstBuffer whole, Buffer block, std::span<const std::size_t> counts, int root);

  /// Everybody's `whole` receives everybody's `block`.
  void all_gather_v(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts);
  Work all_gather_v_async(ConstBuffer block, Buffer whole, std::span<const std::size_t> counts);

  /// Returns when all ranks have called it.
  void barrier();
  Work barrier_async();

  // --- Point-to-point. Messages between two ranks with equal tags arrive in the order they were sent.
  // ------------------

  /// Small messages (up to 64 KiB) are buffered, up to 4 MiB for each receiver, and return at once; beyond that they
  /// wait for room, and larger ones for the matching receive.
  void send(ConstBuffer data, int destination, int tag = 0);
  Work isend(ConstBuffer data, int destination, int tag = 0);

  /// Waits for a message with `tag` from `source` (kAnySource: from anybody). Its type and exact count must be `data`'s
  /// (Mismatch otherwise). Returns the sender's rank.
  int recv(Buffer data, int source = kAnySource, int tag = 0);
  Work irecv(Buffer data, int source = kAnySource, int tag = 0);

  /// send() and recv() at the same time: no order among the ranks can make them wait for each other, whatever the
  /// length of the messages. destination and source may be the same rank, or this one. The buffers must not overlap.
  /// Returns the rank the message came from, when both are complete.
  int sendrecv(ConstBuffer outgoing, int destination, Buffer incoming, int source = kAnySource, int send_tag = 0,
               int recv_tag = 0);

  // --- Typed shorthands
  // -------------------------------------------------------------------------------------------------

  template <typename T>
  void broadcast(std::span<T> data, int root) {
    broadcast(buffer(data), root);
  }
  template <typename T>
  void all_reduce(std::span<T> data, ReduceOp op = ReduceOp::Sum) {
    all_reduce(buffer(data), op);
  }
  template <typename In, typename T>
  void reduce(std::span<In> input, std::span<T> output, ReduceOp op, int root) {
    reduce(const_buffer(input), buffer(output), op, root);
  }
  template <typename In, typename T>
  void gather(std::span<In> input, std::span<T> output, int root) {
    gather(const_buffer(input), buffer(output), root);
  }
  template <typename In, typename T>
  void all_gather(std::span<In> input, std::span<T> output) {
    all_gather(const_buffer(input), buffer(output));
  }
  template <typename In, typename T>
  void scatter(std::span<In> input, std::span<T> output, int root) {
    scatter(const_buffer(input), buffer(output), root);
  }
  template <typename In, typename T>
  void reduce_scatter(std::span<In> input, std::span<T> output, ReduceOp op = ReduceOp::Sum) {
    reduce_scatter(const_buffer(input), buffer(output), op);
  }
  template <typename In, typename T>
  void all_to_all(std::span<In> input, std::span<T> output) {
    all_to_all(const_buffer(input), buffer(output));
  }
  template <typename T>
  void send(std::span<T> data, int destination, int tag = 0) {
    send(const_buffer(data), destination, tag);
  }
  template <typename T>
  int recv(std::span<T> data, int source = kAnySource, int tag = 0) {
    return recv(buffer(data), source, tag);
  }

  /// The algorithm (algorithms.md) that a collective with these arguments takes here: by
  /// ProcessGroupOptions::algorithm, else as rank 0's tuning file or the cost model says; equal on all ranks. Blocks
  /// until rank 0 has formed its group.
  std::string algorithm_for(OpKind op, std::size_t count, DType dtype, int root = 0);

  /// From the next collective on, as if ProcessGroupOptions::algorithm had been `name`; "" to choose. All ranks call it
  /// alike, with nothing in flight. For measuring.
  void use_algorithm(const std::string& name);

  /// Collective: waits until all ranks have finished their operations, then closes. Later calls throw Aborted.
  void shutdown();

  /// Poisons the group on all ranks with `reason`, naming this rank; pending operations end within a second.
  void abort(const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::comm
