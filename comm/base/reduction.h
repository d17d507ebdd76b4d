// Reduction: how a collective combines elements, by an operator of types.h or by one of the caller's own.
//
// Thread-safety: values; copies share the caller's operator, which they keep alive.
#pragma once

#include <tutti/comm/base/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace tutti::comm {

/// An operator of the caller's. It must be associative (up to rounding, if that is good enough for the caller) and work
/// on each element by itself: it is called with pieces of the vectors, of any length, on the thread that runs the
/// collective. Which ranks call it, and how often, is up to the algorithm: one may add for all. It must not use the
/// group.
struct UserOp {
  /// Equal on all ranks for the same operator, different for different ones: ranks compare it (Mismatch).
  std::string name;

  /// target[i] = target[i] (+) incoming[i]. The memories do not overlap; they are aligned for `dtype` where the
  /// caller's buffers are. What it throws fails the group with its text, on all ranks.
  std::function<void(void* target, const void* incoming, std::size_t count, DType dtype)> combine;

  /// False: target holds the contributions of ranks below incoming's, always, and only algorithms that keep this order
  /// are chosen, whatever ProcessGroupOptions::algorithm says.
  bool commutative = true;
};

class Reduction {
 public:
  Reduction(ReduceOp op) : op_(op) {}  // NOLINT: implicit by design

  /// Throws InvalidArgument if it has no name or no function.
  Reduction(UserOp op);  // NOLINT: implicit by design

  ReduceOp op() const { return op_; }  // ReduceOp::User for a UserOp
  const UserOp* user() const { return user_.get(); }
  bool keeps_order() const { return user_ && !user_->commutative; }

  /// What ranks compare: FNV-1a over the name and a byte 0 or 1 for commutative; 0 for the operators of types.h.
  std::uint32_t hash() const { return hash_; }

  /// Half a sentence with the operator's name; empty for the operators of types.h, which fingerprints name.
  std::string text() const;

 private:
  ReduceOp op_ = ReduceOp::Sum;
  std::shared_ptr<const UserOp> user_;
  std::uint32_t hash_ = 0;
};

}  // namespace tutti::comm
