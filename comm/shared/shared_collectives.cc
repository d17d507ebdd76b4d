#include <tutti/comm/base/error.h>
#include <tutti/comm/reduce/reduce.h>
#include <tutti/comm/shared/shared_collectives.h>
#include <tutti/comm/shared/stream_copy.h>

#include <algorithm>
#include <cstring>

namespace tutti::comm {
namespace {

constexpr std::size_t kInlineBytes = sizeof Turn::payload;
constexpr std::size_t kBlock = 4 * 1024;  // what is reduced and copied on while it is in the first cache

// Up to this many bytes it is quicker that every rank reduces everything than to share the work.
constexpr std::size_t kSlotReduceBytes = 32 * 1024;

// A result of so many bytes is written past the caches: it would not stay there. What is broadcast is often where the
// last one was, and is missed there; and a buffer that is reduced in place has just been read, and is there anyway.
constexpr std::size_t kStreamGathered = 8 * 1024 * 1024;
constexpr std::size_t kStreamBroadcast = 32 * 1024 * 1024;

// Up to this many bytes even a registered buffer is copied: one exchange of announcements is quicker than two.
constexpr std::size_t kCopiedBytes = 4 * 1024;

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

void copy_out(std::byte* to, const std::byte* from, std::size_t bytes, bool streams) {
  if (streams) return stream_copy(to, from, bytes);
  copy_bytes(to, from, bytes);
}

/// Elements of the vector of `count` at which share `index` of `ranks` begins.
std::size_t share(std::size_t count, int index, int ranks) {
  return count * static_cast<std::size_t>(index) / static_cast<std::size_t>(ranks);
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

void SharedCollectives::reduce(std::byte* target, const std::byte* incoming, std::size_t length, bool incoming_first) {
  reduce_into(target, incoming, length / element_, operation_->fingerprint.dtype, operation_->fingerprint.reduce_op,
              incoming_first);
}

void SharedCollectives::average(std::byte* target, std::size_t length) {
  if (operation_->fingerprint.reduce_op == ReduceOp::Avg)
    scale_down(target, length / element_, operation_->fingerprint.dtype, board_.ranks());
}

template <typename Source>
void SharedCollectives::reduce_all(std::byte* target, std::size_t length, Source source) {
  for (std::size_t begin = 0; begin < length; begin += kBlock) {
    const std::size_t part = std::min(kBlock, length - begin);
    copy_bytes(target + begin, source(0) + begin, part);
    for (int index = 1; index < board_.ranks(); ++index) reduce(target + begin, source(index) + begin, part);
    average(target + begin, part);
  }
}

/// Runs a pipeline over chunks: stage(k) fills this rank's stage, use(k) reads everybody's. While a chunk is used the
/// next one is staged.
template <typename Stage, typename Use>
void SharedCollectives::staged(std::size_t chunks, bool stages, Stage stage, Use use) {
  const std::uint64_t base = board_.stages_done();
  const auto fill = [&](std::size_t k) {
    if (!stages) return;
    const std::uint64_t number = base + k + 1;
    if (number > kStages)
      for (int index = 0; index < board_.ranks(); ++index)
        if (index != board_.self()) board_.await(&RankState::taken, index, number - kStages);
    stage(k, base + k);
    board_.advance(&RankState::staged, number);
  };
  fill(0);
  for (std::size_t k = 0; k < chunks; ++k) {
    if (k + 1 < chunks) fill(k + 1);
    use(k, base + k);
    board_.advance(&RankState::taken, base + k + 1);
  }
  board_.finish_stages(chunks);
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
    if (sends) copy_bytes(bytes_ <= kInlineBytes ? board_.own().payload.data() : board_.slot(root), data, bytes_);
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
  staged((bytes_ + kStageBytes - 1) / kStageBytes, sends,
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
    copy_bytes(bytes_ <= kInlineBytes ? board_.own().payload.data() : board_.slot(self), input, bytes_);
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
  staged((bytes_ + kStageBytes - 1) / kStageBytes, true,
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

void SharedCollectives::reduce_scatter() {
  const auto* input = static_cast<const std::byte*>(operation_->input);
  auto* output = static_cast<std::byte*>(operation_->output);
  const int self = board_.self();
  const auto ranks = static_cast<std::size_t>(board_.ranks());
  const auto own = static_cast<std::size_t>(self);
  begin();
  if (bytes_ * ranks <= kSlotBytes) {
    copy_bytes(board_.slot(self), input, bytes_ * ranks);
    announce();
    board_.await_all();
    reduce_all(output, bytes_, [&](int index) { return board_.slot(index) + own * bytes_; });
    return board_.finish();
  }
  announce();
  const std::size_t part = kStageBytes / ranks / kLine * kLine;  // of each block, in one chunk
  const auto length = [&](std::size_t k) { return std::min(part, bytes_ - k * part); };
  staged((bytes_ + part - 1) / part, true,
         [&](std::size_t k, std::uint64_t number) {
           for (std::size_t block = 0; block < ranks; ++block)
             if (block != own)
               copy_bytes(board_.stage(self, number) + block * part, input + block * bytes_ + k * part, length(k));
         },
         [&](std::size_t k, std::uint64_t number) {
           for (int index = 0; index < board_.ranks(); ++index) {
             if (index == self) continue;
             if (k == 0) board_.await(index);
             board_.await(&RankState::staged, index, number + 1);
           }
           reduce_all(output + k * part, length(k), [&](int index) {
             return index == self ? input + own * bytes_ + k * part : board_.stage(index, number) + own * part;
           });
         });
  board_.finish();
}

void SharedCollectives::reduce_to(const std::byte* input, std::byte* result) {
  begin();
  const bool for_all = operation_->fingerprint.op == OpKind::AllReduce;
  if (for_all && bytes_ <= kInlineBytes) return inline_all_reduce(result);
  const bool is_short = bytes_ <= kSlotReduceBytes;
  const bool registered = for_all && bytes_ > kCopiedBytes && announces_memory(result);
  if (is_short && !registered) copy_bytes(board_.slot(board_.self()), input, bytes_);
  announce();
  // Who has no registered buffer and stages anyway need not know what the others have.
  const std::size_t in_place = for_all && (is_short || registered) ? await_memory(result) : 0;
  if (in_place == buffers_.size() && in_place > 0) {
    reduce_in_place(result);
  } else if (is_short && in_place == 0) {
    slot_reduce(input, result);
  } else {
    staged_reduce(input, result);
  }
  board_.finish();
}

/// Puts the place of a registered buffer into the announcement; false if `data` is none.
bool SharedCollectives::announces_memory(const std::byte* data) {
  const auto described = heap_.describe(data, bytes_);
  board_.own().has_memory = described.has_value();
  board_.own().memory = described.value_or(0);
  return described.has_value();
}

/// Waits for all announcements; how many ranks have a registered buffer. Fills buffers_.
std::size_t SharedCollectives::await_memory(std::byte* own) {
  board_.await_all();
  buffers_.assign(static_cast<std::size_t>(board_.ranks()), nullptr);
  std::size_t registered = 0;
  for (int index = 0; index < board_.ranks(); ++index) {
    const Turn& turn = board_.await(index);
    if (!turn.has_memory) continue;
    ++registered;
    buffers_[static_cast<std::size_t>(index)] =
        index == board_.self() ? own : heap_.resolve(index, turn.memory, bytes_);
  }
  return registered;
}

void SharedCollectives::inline_all_reduce(std::byte* data) {
  copy_bytes(board_.own().payload.data(), data, bytes_);
  announce();
  board_.await_all();
  Turn sum;
  const auto payload = [&](int index) -> const std::byte* { return board_.await(index).payload.data(); };
  copy_bytes(sum.payload.data(), payload(0), bytes_);
  for (int index = 1; index < board_.ranks(); ++index) reduce(sum.payload.data(), payload(index), bytes_);
  copy_bytes(data, sum.payload.data(), bytes_);
  average(data, bytes_);
  board_.finish();
}

void SharedCollectives::slot_reduce(const std::byte* input, std::byte* result) {
  if (!result) return;
  const int self = board_.self();
  board_.await_all();
  if (board_.ranks() == 2 && result == input) {  // the other's contribution is read once, and nothing copied
    reduce(result, board_.slot(1 - self), bytes_, /*incoming_first=*/self == 1);
    average(result, bytes_);
  } else {
    reduce_all(result, bytes_, [&](int index) { return board_.slot(index); });
  }
}

/// Each rank's stage holds its contribution to the shares of the others and, where its own would be, its share of the
/// result.
void SharedCollectives::staged_reduce(const std::byte* input, std::byte* result) {
  const int self = board_.self();
  const int ranks = board_.ranks();
  const std::size_t chunk = kStageBytes / element_;
  const std::size_t count = bytes_ / element_;
  const auto begin_of = [&](std::size_t k, int index) {
    return share(std::min(chunk, count - k * chunk), index, ranks) * element_;
  };
  const auto at = [&](const std::byte* data, std::size_t k) { return data + k * chunk * element_; };
  staged((count + chunk - 1) / chunk, true,
         [&](std::size_t k, std::uint64_t number) {
           std::byte* stage = board_.stage(self, number);
           const std::size_t mine = begin_of(k, self);
           const std::size_t behind = begin_of(k, self + 1);
           copy_bytes(stage, at(input, k), mine);
           copy_bytes(stage + behind, at(input, k) + behind, begin_of(k, ranks) - behind);
         },
         [&](std::size_t k, std::uint64_t number) {
           for (int index = 0; index < ranks; ++index) {
             if (index == self) continue;
             if (k == 0) board_.await(index);
             board_.await(&RankState::staged, index, number + 1);
           }
           const std::size_t mine = begin_of(k, self);
           reduce_all(board_.stage(self, number) + mine, begin_of(k, self + 1) - mine,
                      [&](int index) { return (index == self ? at(input, k) : board_.stage(index, number)) + mine; });
           board_.advance(&RankState::reduced, number + 1);
           if (!result) return;
           for (int step = 0; step < ranks; ++step) {
             const int index = (self + step) % ranks;
             if (index != self) board_.await(&RankState::reduced, index, number + 1);
             const std::size_t from = begin_of(k, index);
             copy_bytes(result + k * chunk * element_ + from, board_.stage(index, number) + from,
                        begin_of(k, index + 1) - from);
           }
         });
}

/// The block of `data`, this rank's among buffers_, becomes the reduction of all in the order of ranks.
void SharedCollectives::reduce_block_in_place(std::byte* data, std::size_t begin, std::size_t length) {
  const auto self = static_cast<std::size_t>(board_.self());
  if (self >= 2) {  // the ranks before this one are brought together first
    if (block_.empty()) block_.resize(kBlock);
    copy_bytes(block_.data(), buffers_[0] + begin, length);
    for (std::size_t rank = 1; rank < self; ++rank) reduce(block_.data(), buffers_[rank] + begin, length);
    reduce(data + begin, block_.data(), length, /*incoming_first=*/true);
  } else if (self == 1) {
    reduce(data + begin, buffers_[0] + begin, length, /*incoming_first=*/true);
  }
  for (std::size_t rank = self + 1; rank < buffers_.size(); ++rank)
    reduce(data + begin, buffers_[rank] + begin, length);
  average(data + begin, length);
}

/// All buffers lie where everybody reaches them: buffers_.
void SharedCollectives::reduce_in_place(std::byte* data) {
  const int self = board_.self();
  const int ranks = board_.ranks();
  const std::size_t end = share(bytes_ / element_, self + 1, ranks) * element_;
  for (std::size_t begin = share(bytes_ / element_, self, ranks) * element_; begin < end; begin += kBlock) {
    const std::size_t length = std::min(kBlock, end - begin);
    reduce_block_in_place(data, begin, length);
    for (std::byte* other : buffers_)
      if (other != data) copy_bytes(other + begin, data + begin, length);
  }
  const std::uint64_t done = board_.stages_done() + 1;
  board_.advance(&RankState::reduced, done);
  for (int index = 0; index < ranks; ++index)
    if (index != self) board_.await(&RankState::reduced, index, done);
  board_.finish_stages(1);
}

}  // namespace tutti::comm
