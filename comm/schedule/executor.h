// Executor: runs one rank's plan over the collective links of a transport, on the caller's thread.
//
// Every frame's fingerprint is compared with the operation's before a byte of its payload is looked at; what is only
// received may lie in its place by then. Received contributions are reduced as they stream in: where they lie if the
// link shows them, else through a bounce buffer that stays in the cache.
// Thread-safety: one executor is used by one thread at a time.
#pragma once

#include <tutti/comm/base/deadline.h>
#include <tutti/comm/base/reduction.h>
#include <tutti/comm/failure/failure_monitor.h>
#include <tutti/comm/failure/waiter.h>
#include <tutti/comm/schedule/schedule.h>
#include <tutti/comm/transport/transport.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tutti::comm {

/// Of a Plan: which steps wait for which is counted once, and used many times.
struct PlanStep {
  Step step;
  std::uint32_t ordinal = 0;               // sends and receives: how many came before it to/from the same peer
  std::uint32_t waits_for = 0;             // steps that must finish (or, for send order, be posted) first
  std::vector<std::uint32_t> on_complete;  // steps to release when this one is complete
  std::vector<std::uint32_t> on_start;     // steps to release when this one has been posted
};

/// A Schedule prepared for execution. Immutable: any thread may read it.
struct Plan {
  explicit Plan(Schedule schedule);

  std::string_view algorithm;
  std::vector<PlanStep> steps;
  std::size_t scratch_count = 0;
};

/// One collective call: what is compared with the peers, where the memory is, and the caller.
struct Operation {
  const Fingerprint& fingerprint;  // not copied: see trace.cc
  const void* input = nullptr;
  void* output = nullptr;
  Caller& caller;
  std::chrono::milliseconds report_after{5000};
  const UserOp* user_op = nullptr;  // of a reduction by ReduceOp::User
  void* rounded = nullptr;          // of an all_reduce_rounded: where its result belongs
};

class Executor {
 public:
  Executor(Transport& transport, FailureMonitor& monitor);

  /// Throws Mismatch, PeerLost, Timeout, Protocol, Aborted, Operator; the transport is then unusable for further
  /// collectives.
  void run(const Plan& plan, const Operation& operation);

 private:
  struct ActiveReceive {
    std::uint32_t index = 0;
    bool matched = false;                // header seen and compared
    std::size_t arrived = 0;             // payload bytes
    std::size_t reduced = 0;             // of these, bytes already reduced
    std::array<std::byte, 8> partial{};  // the rest: the beginning of one element
  };

  void start(std::uint32_t index);
  void complete(std::uint32_t index);
  void release(const std::vector<std::uint32_t>& steps);
  bool advance_sends();
  bool advance_receives();
  bool advance(ActiveReceive& receive);  // true if anything came
  void combine(std::byte* target, const std::byte* incoming, std::size_t count, bool incoming_first);
  void read_reduce(ActiveReceive& receive, Link& link, std::size_t total);
  void compare(const FrameHeader& header, const PlanStep& step) const;
  [[noreturn]] void disagree(const Fingerprint& theirs, const std::string& peer) const;
  void block(Waiter& waiter);
  [[noreturn]] void explain_loss(const Error& error, int peer);

  std::byte* address(const Slice& slice) const {
    return memory_[static_cast<std::size_t>(slice.buffer)] + slice.offset * element_bytes_;
  }
  std::size_t nbytes(const Slice& slice) const { return slice.count * element_bytes_; }

  Transport& transport_;
  FailureMonitor& monitor_;

  // State of the run in progress.
  const Plan* plan_ = nullptr;
  const Operation* operation_ = nullptr;
  std::size_t element_bytes_ = 0;
  std::array<std::byte*, 3> memory_{};  // by BufferId
  std::size_t completed_ = 0;
  std::vector<std::uint32_t> waits_for_;
  std::vector<std::uint32_t> ready_;
  std::vector<Outgoing> outgoing_;  // one slot per step
  std::vector<std::uint32_t> active_sends_;
  std::uint64_t pass_ = 0;                 // over the active sends
  std::vector<std::uint64_t> flushed_in_;  // by peer: the latest pass that has flushed its link
  std::vector<ActiveReceive> active_receives_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> bounce_;
  std::vector<std::byte> turned_;  // for user operators

  std::array<Fingerprint, 64> history_{};  // the latest operations, by seq, to tell what a straggler's frame belongs to
};

}  // namespace tutti::comm
