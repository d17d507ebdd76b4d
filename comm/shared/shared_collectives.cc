#include <tutti/comm/base/copy.h>
#include <tutti/comm/shared/shared_collectives.h>
#include <tutti/comm/shared/staged_pipeline.h>

#include <algorithm>

namespace tutti::comm {
namespace {

// Copies to two places proceed by this many bytes: the second copy finds them in the innermost caches.
constexpr std::size_t kCopiedTwiceBytes = 32 * 1024;

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

void SharedCollectives::run(const Operation& operation) try {
  operation_ = &operation;
  element_ = size_of(operation.fingerprint.dtype);
  bytes_ = operation.fingerprint.count * element_;
  const auto* input = static_cast<const std::byte*>(operation.input);
  auto* output = static_cast<std::byte*>(operation.output);
  switch (operation.fingerprint.op) {
    case OpKind::Broadcast:
      return broadcast();
    case OpKind::AllReduce:
      return operation.rounded ? all_reduce_rounded(output, static_cast<std::byte*>(operation.rounded))
                               : reduce_to(output, output);
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
} catch (...) {
  board_.give_up();
  throw;
}

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
    if (sends)
      copy_out(bytes_ <= kInlineBytes ? board_.payload() : board_.slot(board_.self()), data, bytes_,
               streams_shown(bytes_));
    announce();
    if (!sends) {
      const Turn& turn = board_.await(root);
      copy_bytes(data, bytes_ <= kInlineBytes ? turn.payload.data() : board_.slot(root), bytes_);
    }
    return board_.finish();
  }
  const Place mine = sends ? find_buffer(data, bytes_) : Place();
  announce(mine);
  if (const std::byte* from = await_buffer(root, kBuffer, bytes_)) {
    broadcast_in_place(data, from);
  } else {
    staged_broadcast(data);
  }
  board_.finish();
}

void SharedCollectives::staged_broadcast(std::byte* data) {
  const int root = operation_->fingerprint.root;
  const bool sends = root == board_.self();
  const bool streams = past_caches(bytes_, kStageBytes);
  run_staged(
      board_, {.bytes = bytes_, .pieces = 8}, sends,
      [&](const Chunk& chunk) {
        copy_out(board_.stage(root, chunk.begin), data + chunk.first, chunk.length, streams_shown(chunk.length));
      },
      [&](const Chunk& chunk) {
        if (sends) return;
        board_.await(&RankState::staged, root, chunk.end);
        copy_out(data + chunk.first, board_.stage(root, chunk.begin), chunk.length, streams);
      });
}

void SharedCollectives::all_gather() {
  const auto* input = static_cast<const std::byte*>(operation_->input);
  auto* output = static_cast<std::byte*>(operation_->output);
  const std::size_t whole = bytes_ * static_cast<std::size_t>(board_.ranks());
  begin();
  if (bytes_ <= kSlotBytes) {
    slot_all_gather(input, output);
  } else {
    const Place mine = find_buffer(output, whole);
    announce(mine);
    if (mine.known && await_buffers(buffers_, kBuffer, whole) == board_.ranks()) {
      gather_in_place(input);
    } else {
      staged_all_gather(input, output);
    }
  }
  board_.finish();
}

void SharedCollectives::slot_all_gather(const std::byte* input, std::byte* output) {
  const int self = board_.self();
  const auto block = [&](int index) { return output + static_cast<std::size_t>(index) * bytes_; };
  copy_out(bytes_ <= kInlineBytes ? board_.payload() : board_.slot(board_.self()), input, bytes_,
           streams_shown(bytes_));
  announce();
  copy_bytes(block(self), input, bytes_);
  for (int index = 0; index < board_.ranks(); ++index) {
    if (index == self) continue;
    const Turn& turn = board_.await(index);
    copy_bytes(block(index), bytes_ <= kInlineBytes ? turn.payload.data() : board_.slot(index), bytes_);
  }
}

void SharedCollectives::staged_all_gather(const std::byte* input, std::byte* output) {
  const int self = board_.self();
  const auto block = [&](int index) { return output + static_cast<std::size_t>(index) * bytes_; };
  const bool streams = past_caches(bytes_ * static_cast<std::size_t>(board_.ranks()), kStageBytes);
  const bool streams_own = past_caches(bytes_, kStageBytes);  // stages stay cached where the result does not
  run_staged(
      board_, {bytes_}, true,
      [&](const Chunk& chunk) {
        for (std::size_t at = 0; at < chunk.length; at += kCopiedTwiceBytes) {
          const std::size_t length = std::min(kCopiedTwiceBytes, chunk.length - at);
          const std::byte* from = input + chunk.first + at;
          copy_out(board_.stage(self, chunk.begin + at), from, length, streams_shown(length));
          copy_out(block(self) + chunk.first + at, from, length, streams_own);
        }
      },
      [&](const Chunk& chunk) {
        for (int step = 1; step < board_.ranks(); ++step) {
          const int index = (self + step) % board_.ranks();  // not all ranks at the same one
          if (chunk.first == 0) board_.await(index);
          board_.await(&RankState::staged, index, chunk.end);
          copy_out(block(index) + chunk.first, board_.stage(index, chunk.begin), chunk.length, streams);
        }
      });
}

}  // namespace tutti::comm
