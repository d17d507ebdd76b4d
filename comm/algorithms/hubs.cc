// Hubs: the star's all_reduce and barrier, for ranks that share few processors, with one hub on each of these.
//
// Idea: in a star rank 0's processor does most of the work: it sends to all ranks, and runs some of these, too. Here
// the lowest rank of each processor hears the others there and answers them, and rank 0 hears and answers those hubs,
// and the ranks of its own processor. That is 2(p - 1) messages as before, but the processors have equal shares of
// them. The hubs pass on what they have heard, unadded: rank 0 adds it in the order of the ranks, as the star does.
//
// Nomenclature: p ranks, n elements per rank; c processors, m = ranks of one. Problem::hosts has the processors here.
// Messages between the ranks of one processor go nowhere until the other one is run; those to hubs are sent first.
//
// Steps:          2(c - 1) messages among the hubs, 2(m - 1) at each of them, 2 elsewhere
// Bytes sent:     mn elements from a hub to rank 0, n in every other message
// Memory:         all_reduce Scratch[pn] at rank 0, Scratch[mn] at the other hubs
// Determinism:    the bits of the star's all_reduce, ((0 + 1) + 2) + ... + (p - 1), wherever the ranks run
// Source:         star.cc, and hierarchical.cc for processors instead of hosts
#include <tutti/comm/algorithms/algorithms.h>
#include <tutti/comm/algorithms/builder.h>
#include <tutti/comm/algorithms/hosts.h>

namespace tutti::comm::algorithms {
namespace {

/// What rank 0 and the other hubs put together: the blocks of all ranks, processor by processor.
struct Blocks {
  explicit Blocks(const Problem& problem) : processors(problem, 0), n(problem.count), segment(problem.segment_count) {}

  /// Those of `ranks` ranks from the one at `place` of a processor on, in this hub's Scratch.
  std::vector<Range> of(int processor, std::size_t place, std::size_t ranks) const {
    const std::size_t before = processors.mine == 0 ? processors.blocks_before(processor) : 0;
    return segments({(before + place) * n, ranks * n}, segment);
  }
  std::size_t size(int processor) const { return processors.members[static_cast<std::size_t>(processor)].size(); }
  int count() const { return static_cast<int>(processors.members.size()); }

  const Hosts processors;
  const std::size_t n, segment;
  Fills filled;
};

/// Hears the other ranks of this processor, one after another: each look at a link is a system call. Returns the last.
Builder::After hear_own(Builder& b, Blocks& blocks) {
  Builder::After heard;
  for (std::size_t place = 1; place < blocks.processors.local().size(); ++place) {
    for (const Range& part : blocks.of(blocks.processors.mine, place, 1)) {
      heard = {b.recv(blocks.processors.local()[place], scratch(part), heard)};
      blocks.filled.add(part, heard.front());
    }
  }
  return heard;
}

void answer_own(Builder& b, const Hosts& processors, const Range& part, const Builder::After& there) {
  for (std::size_t place = 1; place < processors.local().size(); ++place)
    b.send(processors.local()[place], out(part), there);
}

Schedule ask_hub(Builder b, const Problem& problem, int hub) {
  for (const Range& part : segments({0, problem.count}, problem.segment_count))
    b.recv(hub, out(part), {b.send(hub, out(part))});
  return b.finish();
}

Schedule pass_on(Builder b, Blocks& blocks) {
  hear_own(b, blocks);
  const int mine = blocks.processors.mine;
  for (const Range& part : blocks.of(mine, 0, 1)) blocks.filled.add(part, b.copy(scratch(part), out(part)));
  Builder::After passed_on;  // before the answer is looked for, and overwrites Output
  for (const Range& part : blocks.of(mine, 0, blocks.size(mine)))
    passed_on.push_back(b.send(0, scratch(part), blocks.filled.touching(part)));
  for (const Range& part : segments({0, blocks.n}, blocks.segment))
    answer_own(b, blocks.processors, part, {b.recv_looking_on(0, out(part), passed_on)});
  return b.finish(blocks.size(mine) * blocks.n);
}

/// out(part) = ((0 + 1) + 2) + ...; returns the last step.
Builder::After add_all(Builder& b, const Blocks& blocks, const Problem& problem, const Range& part) {
  Builder::After added;
  std::vector<std::size_t> next(blocks.processors.members.size());  // [processor]: place of its next rank
  next[0] = 1;
  for (int rank = 1; rank < problem.world_size; ++rank) {
    const int processor = blocks.processors.host_of(rank);
    const std::size_t place = next[static_cast<std::size_t>(processor)]++;
    const Range block{(blocks.processors.blocks_before(processor) + place) * blocks.n + part.offset, part.count};
    Builder::After ready = blocks.filled.touching(block);
    ready.insert(ready.end(), added.begin(), added.end());
    added = {b.reduce(out(part), scratch(block), false, ready)};
  }
  return added;
}

Schedule add_and_answer(Builder b, Blocks& blocks, const Problem& problem) {
  Builder::After heard = hear_own(b, blocks);
  for (int processor = 1; processor < blocks.count(); ++processor) {
    for (const Range& part : blocks.of(processor, 0, blocks.size(processor))) {
      heard = {b.recv_looking_on(blocks.processors.leaders[static_cast<std::size_t>(processor)], scratch(part), heard)};
      blocks.filled.add(part, heard.front());
    }
  }
  for (const Range& part : segments({0, blocks.n}, blocks.segment)) {
    Builder::After done = add_all(b, blocks, problem, part);
    for (int processor = 1; processor < blocks.count(); ++processor)
      done = {b.send(blocks.processors.leaders[static_cast<std::size_t>(processor)], out(part), done)};
    answer_own(b, blocks.processors, part, done);
  }
  return b.finish(static_cast<std::size_t>(problem.world_size) * blocks.n);
}

}  // namespace

Schedule hub_all_reduce(const Problem& problem) {
  Builder b("star");
  Blocks blocks(problem);
  if (!blocks.processors.is_leader()) return ask_hub(std::move(b), problem, blocks.processors.local().front());
  return problem.rank == 0 ? add_and_answer(std::move(b), blocks, problem) : pass_on(std::move(b), blocks);
}

Schedule hub_barrier(const Problem& problem) {
  Builder b("star");
  const Hosts processors(problem, 0);
  const auto& local = processors.local();
  Builder::After heard;
  if (!processors.is_leader()) {
    b.recv(local.front(), out({}), {b.send(local.front(), out({}))});
    return b.finish();
  }
  for (std::size_t place = 1; place < local.size(); ++place) heard = {b.recv(local[place], out({}), heard)};
  if (problem.rank != 0) {
    heard = {b.recv_looking_on(0, out({}), {b.send(0, out({}), heard)})};
  } else {
    for (std::size_t hub = 1; hub < processors.leaders.size(); ++hub)
      heard = {b.recv_looking_on(processors.leaders[hub], out({}), heard)};
    for (std::size_t hub = 1; hub < processors.leaders.size(); ++hub)
      heard = {b.send(processors.leaders[hub], out({}), heard)};
  }
  answer_own(b, processors, {}, heard);
  return b.finish();
}

}  // namespace tutti::comm::algorithms
