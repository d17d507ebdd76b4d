// The reductions of SharedCollectives, but for those in registered buffers (shared_in_place.cc).
#include <tutti/comm/shared/copy.h>
#include <tutti/comm/shared/shared_collectives.h>
#include <tutti/comm/shared/staged_pipeline.h>

#include <algorithm>

namespace tutti::comm {
namespace {

// Up to this many bytes it is quicker that every rank reduces everything than to share the work.
constexpr std::size_t kSlotReduceBytes = 32 * 1024;

// Up to this many bytes even a registered buffer is copied: one exchange of announcements is quicker than two.
constexpr std::size_t kCopiedBytes = 4 * 1024;

}  // namespace

void SharedCollectives::reduce_scatter() {
  const auto* input = static_cast<const std::byte*>(operation_->input);
  auto* output = static_cast<std::byte*>(operation_->output);
  const int self = board_.self();
  const auto own = static_cast<std::size_t>(self);
  const std::size_t whole = bytes_ * static_cast<std::size_t>(board_.ranks());
  begin();
  if (whole <= kSlotBytes) {
    copy_bytes(board_.slot(self), input, whole);
    announce();
    board_.await_all();
    reduce_all(output, bytes_, [&](int index) { return board_.slot(index) + own * bytes_; });
  } else {
    const bool registered = find_buffer(input, whole);
    announce_buffer();
    if (registered && await_buffers(whole) == board_.ranks()) {
      reduce_all(output, bytes_, [&](int index) { return buffers_[static_cast<std::size_t>(index)] + own * bytes_; });
      leave_buffers();
    } else {
      staged_reduce_scatter(input, output);
    }
  }
  board_.finish();
}

void SharedCollectives::staged_reduce_scatter(const std::byte* input, std::byte* output) {
  const int self = board_.self();
  const auto ranks = static_cast<std::size_t>(board_.ranks());
  const auto own = static_cast<std::size_t>(self);
  const std::size_t part = kStageBytes / ranks / kLine * kLine;  // of each block, in one chunk
  const auto length = [&](std::size_t k) { return std::min(part, bytes_ - k * part); };
  run_staged(
      board_, (bytes_ + part - 1) / part, true,
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
}

void SharedCollectives::reduce_to(const std::byte* input, std::byte* result) {
  begin();
  const bool for_all = operation_->fingerprint.op == OpKind::AllReduce;
  if (for_all && bytes_ <= kInlineBytes) return inline_all_reduce(result);
  const bool is_short = bytes_ <= kSlotReduceBytes;
  const bool registered = for_all && bytes_ > kCopiedBytes && find_buffer(result, bytes_);
  if (is_short && !registered) copy_bytes(board_.slot(board_.self()), input, bytes_);
  announce_buffer();
  // Who has no registered buffer and stages anyway need not know what the others have.
  const int in_place = for_all && (is_short || registered) ? await_buffers(bytes_) : 0;
  if (in_place == board_.ranks()) {
    reduce_in_place();
  } else if (is_short && in_place == 0) {
    slot_reduce(input, result);
  } else {
    staged_reduce(input, result);
  }
  board_.finish();
}

void SharedCollectives::inline_all_reduce(std::byte* data) {
  copy_bytes(board_.payload(), data, bytes_);
  announce();
  board_.await_all();
  alignas(kLine) std::array<std::byte, kLine> sum;  // other ranks may still read this one's payload
  std::byte* const target = sum.data();
  reduce_all(target, bytes_, [&](int index) { return board_.await(index).payload.data(); });
  copy_bytes(data, target, bytes_);
  board_.finish();
}

void SharedCollectives::slot_reduce(const std::byte* input, std::byte* result) {
  if (!result) return;
  const int self = board_.self();
  board_.await_all();
  // In place the own contribution is read where it is.
  reduce_all(result, bytes_, [&](int index) { return index == self && result == input ? input : board_.slot(index); });
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
  run_staged(
      board_, (count + chunk - 1) / chunk, true,
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

}  // namespace tutti::comm
