// Long broadcasts and all_gathers of two ranks in a single copy: who wants a block reads it where the other one has it.
//
// Each says in its announcement where its block lies; one of the two, the receiver of a broadcast or the first rank of
// an all_gather, says whether it is read there, or goes over the stages as between more ranks. Whoever could not read
// says so before the other goes on, and both start again over the stages: nothing has been lost.
#include <tutti/comm/base/fast_clock.h>
#include <tutti/comm/shared/shared_collectives.h>

namespace tutti::comm {

/// Announces the turn, as announce(), with what the other one may read; null if it needs nothing of this rank. Waits
/// for the other's announcement. With more than two ranks, and for what is short, the same as announce().
SharedCollectives::Single SharedCollectives::announce_readable(const Place& mine, const std::byte* readable,
                                                               SingleCopyChoice& choice, bool decides) {
  if (board_.ranks() != 2 || bytes_ < SingleCopyChoice::kLeastBytes) {
    announce(mine);
    return {};
  }
  own_ = {mine.data, nullptr};
  const bool reads = decides && choice.choose(bytes_);
  board_.announce({mine.known, {}}, readable, reads);
  const int other = 1 - board_.self();
  board_.await(other);
  return {decides ? &choice : nullptr, decides ? reads : board_.reads(other)};
}

/// Reads the other's block, or does the same over_stages(); who decided on it notes how long that takes.
void SharedCollectives::copy_singly(const Single& single, std::byte* into, const std::function<void()>& meanwhile,
                                    const std::function<void()>& over_stages) {
  const auto before = FastClock::now();
  if (!single.is_wanted || !read_other(into, meanwhile)) over_stages();
  if (single.choice) single.choice->took(bytes_, single.is_wanted, FastClock::now() - before);
}

/// Reads the other's block to `into`, if not null, and does meanwhile() before waiting until the other has read this
/// rank's. False on both sides if one of them could not, which then nobody tries again.
bool SharedCollectives::read_other(std::byte* into, const std::function<void()>& meanwhile) {
  const int other = 1 - board_.self();
  const std::uint64_t done = board_.position() + kLine;  // a step forward, though nothing lies there
  const bool read = !into || board_.read_memory(other, {into, bytes_});
  board_.check_present(other);
  if (!read) board_.tell_unread(done);
  board_.advance(&RankState::reduced, done);
  meanwhile();
  board_.await(&RankState::reduced, other, done);
  const bool both = read && board_.has_read(other, done);
  board_.finish_stages(done);
  if (both) return true;
  broadcasts_.refuse();
  gathers_.refuse();
  return false;
}

}  // namespace tutti::comm
