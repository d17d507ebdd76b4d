#include <tutti/comm/shared/shared_collectives.h>

namespace tutti::comm {

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
    default:
      return false;
  }
}

void SharedCollectives::run(const Operation& operation) try {
  operation_ = &operation;
  element_ = size_of(operation.fingerprint.dtype);
  bytes_ = operation.fingerprint.count * element_;
  announcements_.begin(operation, bytes_ >= kStreamShown);
  perform();
  announcements_.finish();
} catch (...) {
  announcements_.give_up();
  throw;
}

void SharedCollectives::perform() {
  const auto* input = static_cast<const std::byte*>(operation_->input);
  auto* output = static_cast<std::byte*>(operation_->output);
  switch (operation_->fingerprint.op) {
    case OpKind::Broadcast:
      return broadcast(output);
    case OpKind::AllReduce:
      return operation_->rounded ? all_reduce_rounded(output, static_cast<std::byte*>(operation_->rounded))
                                 : reduce_to(output, output);
    case OpKind::Reduce:
      return reduce_to(input, operation_->fingerprint.root == announcements_.self() ? output : nullptr);
    case OpKind::AllGather:
    case OpKind::Split:
      return all_gather(input, output);
    case OpKind::ReduceScatter:
      return reduce_scatter(input, output);
    default:  // a barrier
      announce();
      announcements_.await_all();
  }
}

void SharedCollectives::broadcast(std::byte* data) {
  const int root = operation_->fingerprint.root;
  const bool sends = root == announcements_.self();
  if (bytes_ <= kSlotBytes) {
    if (sends) show(data, bytes_);
    announce();
    if (sends) return;
    announcements_.await(root);
    return copy_bytes(data, announcements_.shown(root, bytes_), bytes_);
  }
  announce(sends ? find_buffer(data, bytes_) : Place());
  if (const std::byte* from = await_buffer(root, kBuffer, bytes_)) return broadcast_in_place(data, from);
  staged_broadcast(data);
}

void SharedCollectives::staged_broadcast(std::byte* data) {
  const int root = operation_->fingerprint.root;
  const bool sends = root == announcements_.self();
  const bool streams = past_caches(bytes_, kStageBytes);
  run_staged(
      stages_, {.bytes = bytes_, .pieces = 8}, sends,
      [&](const Chunk& chunk) {
        copy_out(stages_.at(root, chunk.begin), data + chunk.first, chunk.length, streams_shown(chunk.length));
      },
      [&](const Chunk& chunk) {
        if (sends) return;
        stages_.await(&RankState::staged, root, chunk.end);
        copy_out(data + chunk.first, stages_.at(root, chunk.begin), chunk.length, streams);
      });
}

void SharedCollectives::all_gather(const std::byte* input, std::byte* output) {
  if (bytes_ <= kSlotBytes) return slot_all_gather(input, output);
  if (all_announce(output, bytes_ * static_cast<std::size_t>(announcements_.ranks()))) return gather_in_place(input);
  staged_all_gather(input, output);
}

void SharedCollectives::slot_all_gather(const std::byte* input, std::byte* output) {
  const int self = announcements_.self();
  const auto block = [&](int index) { return output + static_cast<std::size_t>(index) * bytes_; };
  show(input, bytes_);
  announce();
  copy_bytes(block(self), input, bytes_);
  for (int index = 0; index < announcements_.ranks(); ++index) {
    if (index == self) continue;
    announcements_.await(index);
    copy_bytes(block(index), announcements_.shown(index, bytes_), bytes_);
  }
}

void SharedCollectives::staged_all_gather(const std::byte* input, std::byte* output) {
  const int self = announcements_.self();
  const auto block = [&](int index) { return output + static_cast<std::size_t>(index) * bytes_; };
  const bool streams = past_caches(bytes_ * static_cast<std::size_t>(announcements_.ranks()), kStageBytes);
  const bool streams_own = past_caches(bytes_, kStageBytes);  // stages stay cached where the result does not
  run_staged(
      stages_, {bytes_}, true,
      [&](const Chunk& chunk) {
        copy_out(stages_.at(self, chunk.begin), input + chunk.first, chunk.length, streams_shown(chunk.length));
        copy_out(block(self) + chunk.first, input + chunk.first, chunk.length, streams_own);
      },
      [&](const Chunk& chunk) {
        for (int step = 1; step < announcements_.ranks(); ++step) {
          const int index = (self + step) % announcements_.ranks();  // not all ranks at the same one
          if (chunk.first == 0) announcements_.await(index);
          stages_.await(&RankState::staged, index, chunk.end);
          copy_out(block(index) + chunk.first, stages_.at(index, chunk.begin), chunk.length, streams);
        }
      });
}

// --- In registered buffers, in place: each byte is read and written once

SharedCollectives::Place SharedCollectives::find_buffer(const std::byte* data, std::size_t bytes) const {
  return {const_cast<std::byte*>(data), heap_.describe(data, bytes)};  // written only where it is an output
}

/// Announces the turn, with the places of this rank's buffer, and of its result where that has its own.
void SharedCollectives::announce(const Place& buffer, const Place& result) {
  own_ = {buffer.data, result.data};
  announcements_.announce({buffer.known, result.known});
}

/// Where rank `index` has the `bytes` that it announced as `which`; null if they are not registered. Waits for its
/// announcement.
std::byte* SharedCollectives::await_buffer(int index, Which which, std::size_t bytes) {
  const Turn& turn = announcements_.await(index);
  if ((turn.marks & Turn::kHasMemory << which) == 0) return nullptr;
  return index == announcements_.self() ? own_[which] : heap_.resolve(index, turn.memory[which], bytes);
}

/// Waits for all announcements; how many ranks have registered `which`, `bytes` each. Fills `found`.
int SharedCollectives::await_buffers(std::vector<std::byte*>& found, Which which, std::size_t bytes) {
  announcements_.await_all();
  found.clear();
  for (int index = 0; index < announcements_.ranks(); ++index) found.push_back(await_buffer(index, which, bytes));
  return announcements_.ranks() - static_cast<int>(std::ranges::count(found, nullptr));
}

/// Announces this rank's buffer. Whether those of all ranks are registered, and now in buffers_; a rank that stages
/// anyway does not wait to know.
bool SharedCollectives::all_announce(const std::byte* buffer, std::size_t bytes) {
  const Place mine = find_buffer(buffer, bytes);
  announce(mine);
  return mine.known && await_buffers(buffers_, kBuffer, bytes) == announcements_.ranks();
}

/// This rank is done with the others' buffers. Waits until they are done with its own.
void SharedCollectives::leave_buffers() {
  for (int index = 0; index < announcements_.ranks(); ++index)
    announcements_.check_present(index);  // before any rank relies on it
  stages_.meet(&RankState::reduced, true);
}

/// Every rank's output is in buffers_: this rank's input becomes its block of each.
void SharedCollectives::gather_in_place(const std::byte* input) {
  constexpr std::size_t kPart = 64 * 1024;  // copied to all while it is in the L2 cache
  const int ranks = announcements_.ranks();
  const std::size_t block = static_cast<std::size_t>(announcements_.self()) * bytes_;
  const bool streams = past_caches(bytes_ * static_cast<std::size_t>(ranks), 0);
  for (std::size_t begin = 0; begin < bytes_; begin += kPart) {
    const std::size_t length = std::min(kPart, bytes_ - begin);
    for (int step = 0; step < ranks; ++step) {  // not all ranks to the same one
      const auto index = static_cast<std::size_t>((announcements_.self() + step) % ranks);
      copy_out(buffers_[index] + block + begin, input + begin, length, streams);
    }
  }
  leave_buffers();
}

/// The root's buffer is `from`: it is read where it lies.
void SharedCollectives::broadcast_in_place(std::byte* to, const std::byte* from) {
  if (to != from) {
    copy_out(to, from, bytes_, past_caches(bytes_, 0));
    announcements_.check_present(operation_->fingerprint.root);
  }
  stages_.meet(&RankState::taken, to == from);
}

}  // namespace tutti::comm
