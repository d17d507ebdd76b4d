// The reductions of SharedCollectives, but for those in registered buffers (shared_in_place.cc).
#include <tutti/comm/base/copy.h>
#include <tutti/comm/shared/shared_collectives.h>
#include <tutti/comm/shared/staged_pipeline.h>

#include <algorithm>

namespace tutti::comm {
namespace {

// Up to this many bytes it is faster that every rank reduces everything than to share the work.
constexpr std::size_t slot_reduce_bytes(int ranks) { return (ranks == 2 ? 32 : 16) * 1024; }

// Up to this many bytes even a registered buffer is copied: one exchange of announcements is faster than two.
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
    const bool in_line = whole <= kInlineBytes;
    copy_out(in_line ? board_.payload() : board_.slot(board_.self()), input, whole, streams_shown(whole));
    announce();
    board_.await_all();
    reduce_all(output, bytes_, input + own * bytes_, [&](int index) {
      return (in_line ? board_.announced(index).payload.data() : board_.slot(index)) + own * bytes_;
    });
  } else {
    const Place mine = find_buffer(input, whole);
    announce(mine);
    if (mine.known && await_buffers(buffers_, kBuffer, whole) == board_.ranks()) {
      reduce_all(output, bytes_, input + own * bytes_,
                 [&](int index) { return buffers_[static_cast<std::size_t>(index)] + own * bytes_; });
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
  const auto row = [&](const Chunk& chunk, std::size_t block) { return block * Staged::row_bytes(chunk.length); };
  run_staged(
      board_, {bytes_, ranks}, true,
      [&](const Chunk& chunk) {
        for (std::size_t block = 0; block < ranks; ++block)
          if (block != own)
            copy_out(board_.stage(self, chunk.begin) + row(chunk, block), input + block * bytes_ + chunk.first,
                     chunk.length, streams_shown(chunk.length));
      },
      [&](const Chunk& chunk) {
        for (int index = 0; index < board_.ranks(); ++index) {
          if (index == self) continue;
          if (chunk.first == 0) board_.await(index);
          board_.await(&RankState::staged, index, chunk.end);
        }
        reduce_all(output + chunk.first, chunk.length, input + own * bytes_ + chunk.first,
                   [&](int index) { return board_.stage(index, chunk.begin) + row(chunk, own); });
      });
}

void SharedCollectives::reduce_to(const std::byte* input, std::byte* result) {
  begin();
  const bool for_all = operation_->fingerprint.op == OpKind::AllReduce;
  if (for_all && bytes_ <= kInlineBytes) return inline_all_reduce(result);
  const bool is_short = bytes_ <= slot_reduce_bytes(board_.ranks());
  const bool may_be_in_place = for_all && bytes_ > kCopiedBytes;
  const Place mine = may_be_in_place ? find_buffer(result, bytes_) : Place();
  if (is_short && !mine.known) copy_out(board_.slot(board_.self()), input, bytes_, streams_shown(bytes_));
  announce(mine);
  // A rank without a registered buffer that stages anyway does not need to know what the others have.
  const int in_place = may_be_in_place && (is_short || mine.known) ? await_buffers(buffers_, kBuffer, bytes_) : 0;
  if (in_place == board_.ranks()) {
    reduce_in_place();
  } else if (is_short && in_place == 0) {
    slot_reduce(input, result);
  } else {
    staged_reduce(input, result);
  }
  board_.finish();
}

/// The sums of longer vectors are not written where all ranks can round them into every result at once.
void SharedCollectives::all_reduce_rounded(std::byte* sums, std::byte* rounded) {
  bool everywhere = false;
  if (bytes_ <= kCopiedBytes) {
    reduce_to(sums, sums);
  } else {
    begin();
    announce(find_buffer(sums, bytes_), find_buffer(rounded, bytes_ / 2));
    const int ranks = board_.ranks();
    const bool in_place = await_buffers(buffers_, kBuffer, bytes_) == ranks;
    everywhere = in_place && await_buffers(results_, kResult, bytes_ / 2) == ranks;
    if (everywhere) {
      round_in_place();
    } else if (in_place) {
      reduce_in_place();
    } else {
      staged_reduce(sums, sums);
    }
    board_.finish();
  }
  if (everywhere) return;
  const std::byte* const source = sums;
  reduce_rounded({&rounded, 1}, {&source, 1}, bytes_ / element_);
}

void SharedCollectives::inline_all_reduce(std::byte* data) {
  copy_bytes(board_.payload(), data, bytes_);
  announce();
  board_.await_all();
  reduce_all(data, bytes_, data, [&](int index) { return board_.announced(index).payload.data(); });
  board_.finish();
}

void SharedCollectives::slot_reduce(const std::byte* input, std::byte* result) {
  if (!result) return;
  board_.await_all();
  reduce_all(result, bytes_, input, [&](int index) { return board_.slot(index); });
}

/// Each rank's stage holds its contribution to the shares of the others. Once a rank has read the others' contributions
/// to its own share it overwrites one of them with the result: a line that it has just fetched is faster to overwrite
/// than another one. No other rank reads that part of a stage in between.
void SharedCollectives::staged_reduce(const std::byte* input, std::byte* result) {
  const int self = board_.self();
  const int ranks = board_.ranks();
  const auto begin_of = [&](const Chunk& chunk, int index) {
    return share(chunk.length / element_, index, ranks) * element_;
  };
  run_staged(
      board_, {bytes_}, true,
      [&](const Chunk& chunk) {
        std::byte* stage = board_.stage(self, chunk.begin);
        const std::size_t mine = begin_of(chunk, self);
        const std::size_t behind = begin_of(chunk, self + 1);
        copy_out(stage, input + chunk.first, mine, streams_shown(mine));
        copy_out(stage + behind, input + chunk.first + behind, chunk.length - behind,
                 streams_shown(chunk.length - behind));
      },
      [&](const Chunk& chunk) {
        for (int index = 0; index < ranks; ++index) {
          if (index == self) continue;
          if (chunk.first == 0) board_.await(index);
          board_.await(&RankState::staged, index, chunk.end);
        }
        const auto shown = [&](int index) {  // where the share of rank `index` of the result is
          return board_.stage(board_.streams(index) ? index : (index + 1) % ranks, chunk.begin) +
                 begin_of(chunk, index);
        };
        const std::size_t mine = begin_of(chunk, self);
        const std::size_t length = begin_of(chunk, self + 1) - mine;
        std::byte* const target = result ? result + chunk.first + mine : nullptr;
        const auto contributed = [&](int index) { return board_.stage(index, chunk.begin) + mine; };
        reduce_all(target, length, input + chunk.first + mine, contributed, shown(self));
        board_.advance(&RankState::reduced, chunk.end);
        if (!result) return;
        for (int step = 1; step < ranks; ++step) {
          const int index = (self + step) % ranks;
          board_.await(&RankState::reduced, index, chunk.end);
          const std::size_t from = begin_of(chunk, index);
          copy_bytes(result + chunk.first + from, shown(index), begin_of(chunk, index + 1) - from);
        }
      });
}

}  // namespace tutti::comm
