#include <tutti/comm/shared/copy.h>
#include <tutti/comm/shared/shared_collectives.h>
#include <tutti/comm/shared/staged_pipeline.h>

#include <algorithm>

namespace tutti::comm {
namespace {

// A result of so many bytes is written past the caches: it would not stay there. What is broadcast is often where the
// last one was, and is missed there; and a buffer that is reduced in place has just been read, and is there anyway.
constexpr std::size_t kStreamGathered = 8 * 1024 * 1024;
constexpr std::size_t kStreamBroadcast = 32 * 1024 * 1024;

void copy_out(std::byte* to, const std::byte* from, std::size_t bytes, bool streams) {
  if (streams) return stream_copy(to, from, bytes);
  copy_bytes(to, from, bytes);
}
}  // namespace

bool SharedCollectives::takes(OpKind op) {
  switch (op) {
    case OpKind::Broadcast:
    case OpKind::Reduce:
    case OpKind::AllReduce:
    case OpKind::AllGather:
    case OpKind::Split:
    case OpKind::ReduceScatter:
    case OpKind::Barrier:
    case OpKind::Shutdown:
      return true;
    case OpKind::Gather:
    case OpKind::Scatter:
    case OpKind::AllToAll:
    case OpKind::GatherV:
    case OpKind::ScatterV:
    case OpKind::AllGatherV:
    case OpKind::ReduceScatterV:
    case OpKind::AllToAllV:
    case OpKind::Send:
    case OpKind::Recv:
      return false;
  }
  return false;
}

void SharedCollectives::run(const Operation& operation) {
  operation_ = &operation;
  element_ = size_of(operation.fingerprint.dtype);
  bytes_ = operation.fingerprint.count * element_;
  const auto* input = static_cast<const std::byte*>(operation.input);
  auto* output = static_cast<std::byte*>(operation.output);
  switch (operation.fingerprint.op) {
    case OpKind::Broadcast:
      return broadcast();
    case OpKind::AllReduce:
      return reduce_to(output, output);
    case OpKind::Reduce:
      return reduce_to(input, operation.fingerprint.root == board_.self() ? output : nullptr);
    case OpKind::AllGather:
    case OpKind::Split:
      return all_gather();
    case OpKind::ReduceScatter:
      return reduce_scatter();
    default:
      return barrier();
  }
}

void SharedCollectives::begin() { board_.begin(*operation_); }

void SharedCollectives::barrier() {
  begin();
  announce();
  board_.await_all();
  board_.finish();
}

void SharedCollectives::broadcast() {
  auto* data = static_cast<std::byte*>(operation_->output);
  const int root = operation_->fingerprint.root;
  const bool sends = root == board_.self();
  begin();
  if (bytes_ <= kSlotBytes) {
    if (sends) copy_bytes(bytes_ <= kInlineBytes ? board_.payload() : board_.slot(root), data, bytes_);
    announce();
    if (!sends) {
      const Turn& turn = board_.await(root);
      copy_bytes(data, bytes_ <= kInlineBytes ? turn.payload.data() : board_.slot(root), bytes_);
    }
    return board_.finish();
  }
  announce();
  const bool streams = bytes_ >= kStreamBroadcast;
  const auto length = [&](std::size_t k) { return std::min(kStageBytes, bytes_ - k * kStageBytes); };
  if (!sends) board_.await(root);
  run_staged(
      board_, (bytes_ + kStageBytes - 1) / kStageBytes, sends,
      [&](std::size_t k, std::uint64_t number) {
        copy_bytes(board_.stage(root, number), data + k * kStageBytes, length(k));
      },
      [&](std::size_t k, std::uint64_t number) {
        if (sends) return;
        board_.await(&RankState::staged, root, number + 1);
        copy_out(data + k * kStageBytes, board_.stage(root, number), length(k), streams);
      });
  board_.finish();
}

void SharedCollectives::all_gather() {
  const auto* input = static_cast<const std::byte*>(operation_->input);
  auto* output = static_cast<std::byte*>(operation_->output);
  const int self = board_.self();
  const auto block = [&](int index) { return output + static_cast<std::size_t>(index) * bytes_; };
  begin();
  if (bytes_ <= kSlotBytes) {
    copy_bytes(bytes_ <= kInlineBytes ? board_.payload() : board_.slot(self), input, bytes_);
    announce();
    copy_bytes(block(self), input, bytes_);
    for (int index = 0; index < board_.ranks(); ++index) {
      if (index == self) continue;
      const Turn& turn = board_.await(index);
      copy_bytes(block(index), bytes_ <= kInlineBytes ? turn.payload.data() : board_.slot(index), bytes_);
    }
    return board_.finish();
  }
  announce();
  const bool streams = bytes_ * static_cast<std::size_t>(board_.ranks()) >= kStreamGathered;
  const auto length = [&](std::size_t k) { return std::min(kStageBytes, bytes_ - k * kStageBytes); };
  run_staged(
      board_, (bytes_ + kStageBytes - 1) / kStageBytes, true,
      [&](std::size_t k, std::uint64_t number) {
        copy_bytes(board_.stage(self, number), input + k * kStageBytes, length(k));
      },
      [&](std::size_t k, std::uint64_t number) {
        copy_out(block(self) + k * kStageBytes, input + k * kStageBytes, length(k), streams);
        for (int step = 1; step < board_.ranks(); ++step) {
          const int index = (self + step) % board_.ranks();  // not everybody at the same one
          if (k == 0) board_.await(index);
          board_.await(&RankState::staged, index, number + 1);
          copy_out(block(index) + k * kStageBytes, board_.stage(index, number), length(k), streams);
        }
      });
  board_.finish();
}

}  // namespace tutti::comm
