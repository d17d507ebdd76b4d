// What SharedCollectives do in registered buffers, in place: each byte is read and written once.
#include <tutti/comm/base/copy.h>
#include <tutti/comm/shared/shared_collectives.h>

#include <algorithm>

namespace tutti::comm {

SharedCollectives::Place SharedCollectives::find_buffer(const std::byte* data, std::size_t bytes) const {
  return {const_cast<std::byte*>(data), heap_.describe(data, bytes)};  // written only where it is an output
}

/// Announces the turn, with the places of this rank's buffer, and of its result where that has its own.
void SharedCollectives::announce(const Place& buffer, const Place& result) {
  own_ = {buffer.data, result.data};
  board_.announce({buffer.known, result.known});
}

/// Where rank `index` has the `bytes` that it announced as `which`; null if they are not registered. Waits for its
/// announcement.
std::byte* SharedCollectives::await_buffer(int index, Which which, std::size_t bytes) {
  const Turn& turn = board_.await(index);
  if ((turn.marks & Turn::kHasMemory << which) == 0) return nullptr;
  return index == board_.self() ? own_[which] : heap_.resolve(index, turn.memory[which], bytes);
}

/// Waits for all announcements; how many ranks have registered `which`, `bytes` each. Fills `found`.
int SharedCollectives::await_buffers(std::vector<std::byte*>& found, Which which, std::size_t bytes) {
  board_.await_all();
  found.clear();
  for (int index = 0; index < board_.ranks(); ++index) found.push_back(await_buffer(index, which, bytes));
  return board_.ranks() - static_cast<int>(std::ranges::count(found, nullptr));
}

/// This rank is done with the others' buffers. Waits until they are done with its own.
void SharedCollectives::leave_buffers() {
  for (int index = 0; index < board_.ranks(); ++index) board_.check_present(index);  // before any rank relies on it
  const std::uint64_t done = board_.position() + kLine;  // a step forward, though nothing lies there
  board_.advance(&RankState::reduced, done);
  for (int index = 0; index < board_.ranks(); ++index)
    if (index != board_.self()) board_.await(&RankState::reduced, index, done);
  board_.finish_stages(done);
}

/// Moves on to this rank's share of `buffers`, whose elements have `element` bytes; returns its length.
std::size_t SharedCollectives::enter_share(std::vector<std::byte*>& buffers, std::size_t element) const {
  const std::size_t count = bytes_ / element_;
  const std::size_t begin = share(count, board_.self(), board_.ranks());
  for (std::byte*& buffer : buffers) buffer += begin * element;
  return share(count, board_.self() + 1, board_.ranks()) - begin;
}

/// buffers_ are those of all ranks.
void SharedCollectives::reduce_in_place() {
  const std::size_t count = enter_share(buffers_, element_);
  sources_.assign(buffers_.begin(), buffers_.end());
  const Fingerprint& f = operation_->fingerprint;
  comm::reduce_all(buffers_, sources_, count, f.dtype, f.reduce_op, walk());
  leave_buffers();
}

/// buffers_ and results_ are those of all ranks.
void SharedCollectives::round_in_place() {
  const std::size_t count = enter_share(buffers_, sizeof(double));
  enter_share(results_, sizeof(float));
  sources_.assign(buffers_.begin(), buffers_.end());
  reduce_rounded(results_, sources_, count, walk());
  leave_buffers();
}

/// Every rank's output is in buffers_: this rank's input becomes its block of each.
void SharedCollectives::gather_in_place(const std::byte* input) {
  constexpr std::size_t kPart = 64 * 1024;  // copied to all while it is in the L2 cache
  const int ranks = board_.ranks();
  const std::size_t block = static_cast<std::size_t>(board_.self()) * bytes_;
  const bool streams = past_caches(bytes_ * static_cast<std::size_t>(ranks), 0);
  for (std::size_t begin = 0; begin < bytes_; begin += kPart) {
    const std::size_t length = std::min(kPart, bytes_ - begin);
    for (int step = 0; step < ranks; ++step) {  // not all ranks to the same one
      const auto index = static_cast<std::size_t>((board_.self() + step) % ranks);
      copy_out(buffers_[index] + block + begin, input + begin, length, streams);
    }
  }
  leave_buffers();
}

/// The root's buffer is `from`: it is read where it lies.
void SharedCollectives::broadcast_in_place(std::byte* to, const std::byte* from) {
  const std::uint64_t done = board_.position() + kLine;  // as above
  if (to != from) {
    copy_out(to, from, bytes_, past_caches(bytes_, 0));
    board_.check_present(operation_->fingerprint.root);
  }
  board_.advance(&RankState::taken, done);
  for (int index = 0; index < board_.ranks() && to == from; ++index)
    if (index != board_.self()) board_.await(&RankState::taken, index, done);
  board_.finish_stages(done);
}

}  // namespace tutti::comm
