// Fixed order: all_reduce and reduce whose bits depend on nothing but the ranks' inputs.
//
// Idea: each element has an owner. Every rank sends the owners their parts at once, an owner adds what comes in the
// order of the ranks, itself in its turn, and then sends the sum to those that need it. So every element is the fold
// ((0 + 1) + 2) + ... from the left, whatever its place, the segments, the root or the transport; direct reduce_scatter
// (direct.cc) and the star (star.cc) give the same bits.
//
// A long vector is dealt out in rounds, in each of which every owner has one segment, so that what is added has just
// come and is still in the caches, and few sums wait. Each round's parts are sent a little before the sums of earlier
// ones: links keep the order of messages, and no rank has to wait for a sum before it can go on.
//
// Nomenclature: p ranks, n elements per rank, segments of s elements; ceil(n/(p s)) rounds.
//
// Steps:          a round: 2, of up to p - 1 messages each at every rank
// Bytes sent:     all_reduce 2n(p - 1)/p elements a rank: the least possible; reduce n(p - 1)/p, + n/p
// Memory:         Scratch[2 s], or less of a short vector
// Determinism:    as above; the operator need be associative only.
// Source:         Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and
//                 experience. CCPE 19 (2007), reduce-scatter followed by allgather or gather.
//                 https://doi.org/10.1002/cpe.1206
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>

namespace tutti::comm::algorithms {
namespace {

constexpr std::size_t kAhead = 1;  // rounds whose parts go before the sums of a round
constexpr std::size_t kSlots = 2;  // rounds whose sums lie in Scratch

class FixedOrder {
 public:
  /// `own` is where the caller has its vector. The sums are wanted by `root`, or by all if it is -1.
  FixedOrder(const Problem& problem, BufferId own, int root) : problem_(problem), own_(own), root_(root) {
    rounds_ = segments({0, problem.count}, problem.segment_count * static_cast<std::size_t>(problem.world_size));
    slot_count_ = rounds_.empty() ? 0 : chunk_of(rounds_.front().count, problem.world_size, 0).count;
    sent_.resize(rounds_.size(), std::vector<Builder::After>(static_cast<std::size_t>(problem.world_size)));
    added_.resize(rounds_.size());
    shared_.resize(rounds_.size());
  }

  Schedule build() {
    for (std::size_t round = 0; round < rounds_.size() + kAhead; ++round) {
      if (round < rounds_.size()) {
        contribute(round);
        add(round);
      }
      if (round >= kAhead && round - kAhead < rounds_.size()) share(round - kAhead);
    }
    return b_.finish(std::min(rounds_.size(), kSlots) * slot_count_);
  }

 private:
  Range part(std::size_t round, int owner) const {
    const Range chunk = chunk_of(rounds_[round].count, problem_.world_size, owner);
    return {rounds_[round].offset + chunk.offset, chunk.count};
  }
  Slice own(Range range) const { return {own_, range.offset, range.count}; }
  Slice sum(std::size_t round, std::size_t count) const { return scratch({round % kSlots * slot_count_, count}); }
  bool needs(int rank) const { return root_ < 0 || root_ == rank; }
  int peer_at(int distance) const { return (problem_.rank + distance) % problem_.world_size; }

  void contribute(std::size_t round) {
    for (int distance = 1; distance < problem_.world_size; ++distance) {  // not all to rank 0 first
      const int owner = peer_at(distance);
      const Range theirs = part(round, owner);
      if (theirs.count > 0) sent_[round][static_cast<std::size_t>(owner)] = {b_.send(owner, own(theirs))};
    }
  }

  void add(std::size_t round) {
    const Range mine = part(round, problem_.rank);
    if (mine.count == 0) return;
    const Slice target = sum(round, mine.count);
    Builder::After done = round >= kSlots ? shared_[round - kSlots] : Builder::After();
    for (int rank = 0; rank < problem_.world_size; ++rank) {
      if (rank == problem_.rank) {
        done = {rank == 0 ? b_.copy(target, own(mine), done) : b_.reduce(target, own(mine), false, done)};
      } else {
        done = {rank == 0 ? b_.recv(rank, target, done) : b_.recv_reduce(rank, target, false, done)};
      }
    }
    added_[round] = done;
  }

  void share(std::size_t round) {
    const Range mine = part(round, problem_.rank);
    const Slice result = sum(round, mine.count);
    for (int distance = 0; distance < problem_.world_size; ++distance) {
      const int peer = peer_at(distance);
      if (mine.count > 0 && needs(peer))
        shared_[round].push_back(distance == 0 ? b_.copy(out(mine), result, added_[round])
                                               : b_.send(peer, result, added_[round]));
      const Range theirs = part(round, peer);
      if (distance > 0 && needs(problem_.rank) && theirs.count > 0)
        b_.recv(peer, out(theirs), sent_[round][static_cast<std::size_t>(peer)]);  // may be what has been sent from
    }
  }

  const Problem& problem_;
  const BufferId own_;
  const int root_;
  Builder b_{"fixed"};
  std::vector<Range> rounds_;
  std::size_t slot_count_ = 0;  // elements of a slot
  // By round: what has been sent to each owner, its sum, and which ranks have that.
  std::vector<std::vector<Builder::After>> sent_;
  std::vector<Builder::After> added_;
  std::vector<Builder::After> shared_;
};

}  // namespace

Schedule fixed_all_reduce(const Problem& problem) { return FixedOrder(problem, BufferId::Output, -1).build(); }
Schedule fixed_reduce(const Problem& problem) { return FixedOrder(problem, BufferId::Input, problem.root).build(); }

}  // namespace tutti::comm::algorithms
