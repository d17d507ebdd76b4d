// Builds the Mismatch error when two ranks announced different operations.
#include <tutti/comm/base/error.h>
#include <tutti/comm/shared/board.h>

#include <string>

namespace tutti::comm {
namespace {

Fingerprint fingerprint_of(const Turn& turn, std::uint64_t group) {
  return {group,
          turn.seq,
          turn.count,
          turn.root,
          static_cast<OpKind>(turn.op),
          static_cast<DType>(turn.dtype),
          static_cast<ReduceOp>(turn.reduce_op)};
}

}  // namespace

/// The digests differ: somewhere the two ranks have called different operations. Reports the oldest difference.
void Board::compare(const Turn& theirs, int index) const {
  const std::uint64_t group = operation_->fingerprint.group;
  Fingerprint their_call = fingerprint_of(theirs, group);
  Fingerprint our_call = operation_->fingerprint;
  for (std::uint64_t number = number_ > kTurns ? number_ - kTurns + 1 : 1; number < number_; ++number) {
    const Turn& then = segment_.turn(index, number);
    const Turn& ours = segment_.turn(self_, number);
    if (then.number.load(std::memory_order_acquire) != number || then.history == ours.history) continue;
    their_call = fingerprint_of(then, group);
    our_call = fingerprint_of(ours, group);
    break;
  }
  for (std::uint64_t number = number_ > kTurns ? number_ - kTurns + 1 : 1; number < number_; ++number) {
    const Turn& ours = segment_.turn(self_, number);  // what this rank called under the number of their call
    if (ours.seq == their_call.seq) our_call = fingerprint_of(ours, group);
  }
  const std::string before =
      our_call == their_call ? ", but after an operation that had another name or root there than here" : "";
  throw Error(ErrorCode::Mismatch, "rank " + std::to_string(transport_.rank()) + " called " + our_call.to_string() +
                                       ", but " + monitor_.describe(neighbours_.rank_of(index)) + " called " +
                                       their_call.to_string() + before);
}

}  // namespace tutti::comm
