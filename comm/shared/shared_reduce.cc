// The reductions of SharedCollectives.
#include <tutti/comm/shared/shared_collectives.h>

namespace tutti::comm {
namespace {

// Up to this many bytes it is faster that every rank reduces everything than to share the work.
constexpr std::size_t slot_reduce_bytes(int ranks) { return (ranks == 2 ? 32 : 16) * 1024; }

// Up to this many bytes even a registered buffer is copied: one exchange of announcements is faster than two.
constexpr std::size_t kCopiedBytes = 4 * 1024;

}  // namespace

void SharedCollectives::reduce_scatter(const std::byte* input, std::byte* output) {
  const std::size_t own = static_cast<std::size_t>(announcements_.self()) * bytes_;
  const std::size_t whole = bytes_ * static_cast<std::size_t>(announcements_.ranks());
  if (whole <= kSlotBytes) {
    show(input, whole);
    announce();
    announcements_.await_all();
    reduce_all(output, bytes_, input + own, [&](int index) { return announcements_.shown(index, whole) + own; });
  } else if (all_announce(input, whole)) {
    reduce_all(output, bytes_, input + own, [&](int index) { return buffers_[static_cast<std::size_t>(index)] + own; });
    leave_buffers();
  } else {
    staged_reduce_scatter(input, output);
  }
}

/// Waits until all other ranks have staged the chunk, having compared their announcements.
void SharedCollectives::await_staged(const Chunk& chunk) {
  for (int index = 0; index < announcements_.ranks(); ++index) {
    if (index == announcements_.self()) continue;
    if (chunk.first == 0) announcements_.await(index);
    stages_.await(&RankState::staged, index, chunk.end);
  }
}

void SharedCollectives::staged_reduce_scatter(const std::byte* input, std::byte* output) {
  const int self = announcements_.self();
  const auto ranks = static_cast<std::size_t>(announcements_.ranks());
  const auto own = static_cast<std::size_t>(self);
  const auto row = [&](const Chunk& chunk, std::size_t block) { return block * Staged::row_bytes(chunk.length); };
  run_staged(
      stages_, {bytes_, ranks}, true,
      [&](const Chunk& chunk) {
        for (std::size_t block = 0; block < ranks; ++block)
          if (block != own)
            copy_out(stages_.at(self, chunk.begin) + row(chunk, block), input + block * bytes_ + chunk.first,
                     chunk.length, streams_shown(chunk.length));
      },
      [&](const Chunk& chunk) {
        await_staged(chunk);
        reduce_all(output + chunk.first, chunk.length, input + own * bytes_ + chunk.first,
                   [&](int index) { return stages_.at(index, chunk.begin) + row(chunk, own); });
      });
}

void SharedCollectives::reduce_to(const std::byte* input, std::byte* result) {
  const bool for_all = operation_->fingerprint.op == OpKind::AllReduce;
  const bool is_short = bytes_ <= slot_reduce_bytes(announcements_.ranks());
  const bool may_be_in_place = for_all && bytes_ > kCopiedBytes;
  const Place mine = may_be_in_place ? find_buffer(result, bytes_) : Place();
  if (is_short && !mine.known) show(input, bytes_);
  may_be_in_place ? announce(mine) : announce();
  // A rank without a registered buffer that stages anyway does not need to know what the others have.
  const int in_place = may_be_in_place && (is_short || mine.known) ? await_buffers(buffers_, kBuffer, bytes_) : 0;
  if (in_place == announcements_.ranks()) {
    reduce_in_place();
  } else if (is_short && in_place == 0) {
    slot_reduce(input, result);
  } else {
    staged_reduce(input, result);
  }
}

/// The sums of longer vectors are not written where all ranks can round them into every result at once.
void SharedCollectives::all_reduce_rounded(std::byte* sums, std::byte* rounded) {
  const int ranks = announcements_.ranks();
  if (bytes_ <= kCopiedBytes) {
    reduce_to(sums, sums);
  } else {
    announce(find_buffer(sums, bytes_), find_buffer(rounded, bytes_ / 2));
    if (await_buffers(buffers_, kBuffer, bytes_) < ranks) {
      staged_reduce(sums, sums);
    } else if (await_buffers(results_, kResult, bytes_ / 2) < ranks) {
      reduce_in_place();
    } else {
      return round_in_place();
    }
  }
  const std::byte* const source = sums;
  reduce_rounded({&rounded, 1}, {&source, 1}, bytes_ / element_);
}

void SharedCollectives::slot_reduce(const std::byte* input, std::byte* result) {
  if (!result) return;
  announcements_.await_all();
  reduce_all(result, bytes_, input, [&](int index) { return announcements_.shown(index, bytes_); });
}

/// Each rank's stage holds its contribution to the shares of the others. Once a rank has read the others' contributions
/// to its own share it overwrites one of them with the result: a line that it has just fetched is faster to overwrite
/// than another one. No other rank reads that part of a stage in between.
void SharedCollectives::staged_reduce(const std::byte* input, std::byte* result) {
  const int self = announcements_.self();
  const int ranks = announcements_.ranks();
  const auto begin_of = [&](const Chunk& chunk, int index) {
    return share(chunk.length / element_, index, ranks) * element_;
  };
  run_staged(
      stages_, {bytes_}, true,
      [&](const Chunk& chunk) {
        std::byte* stage = stages_.at(self, chunk.begin);
        const std::size_t mine = begin_of(chunk, self);
        const std::size_t behind = begin_of(chunk, self + 1);
        copy_out(stage, input + chunk.first, mine, streams_shown(mine));
        copy_out(stage + behind, input + chunk.first + behind, chunk.length - behind,
                 streams_shown(chunk.length - behind));
      },
      [&](const Chunk& chunk) {
        await_staged(chunk);
        const auto shown = [&](int index) {  // where the share of rank `index` of the result is
          return stages_.at(announcements_.streams(index) ? index : (index + 1) % ranks, chunk.begin) +
                 begin_of(chunk, index);
        };
        const std::size_t mine = begin_of(chunk, self);
        const std::size_t length = begin_of(chunk, self + 1) - mine;
        std::byte* const target = result ? result + chunk.first + mine : nullptr;
        const auto contributed = [&](int index) { return stages_.at(index, chunk.begin) + mine; };
        reduce_all(target, length, input + chunk.first + mine, contributed, shown(self));
        stages_.advance(&RankState::reduced, chunk.end);
        if (!result) return;
        for (int step = 1; step < ranks; ++step) {
          const int index = (self + step) % ranks;
          stages_.await(&RankState::reduced, index, chunk.end);
          const std::size_t from = begin_of(chunk, index);
          copy_bytes(result + chunk.first + from, shown(index), begin_of(chunk, index + 1) - from);
        }
      });
}

// --- In registered buffers, in place

/// Moves on to this rank's share of `buffers`, whose elements have `element` bytes; returns its length.
std::size_t SharedCollectives::enter_share(std::vector<std::byte*>& buffers, std::size_t element) const {
  const std::size_t count = bytes_ / element_;
  const std::size_t begin = share(count, announcements_.self(), announcements_.ranks());
  for (std::byte*& buffer : buffers) buffer += begin * element;
  return share(count, announcements_.self() + 1, announcements_.ranks()) - begin;
}

/// buffers_ are those of all ranks.
void SharedCollectives::reduce_in_place() {
  const std::size_t count = enter_share(buffers_, element_);
  sources_.assign(buffers_.begin(), buffers_.end());
  const Fingerprint& f = operation_->fingerprint;
  comm::reduce_all(buffers_, sources_, count, f.dtype, f.reduce_op);
  leave_buffers();
}

/// buffers_ and results_ are those of all ranks.
void SharedCollectives::round_in_place() {
  const std::size_t count = enter_share(buffers_, sizeof(double));
  enter_share(results_, sizeof(float));
  sources_.assign(buffers_.begin(), buffers_.end());
  reduce_rounded(results_, sources_, count);
  leave_buffers();
}

}  // namespace tutti::comm
