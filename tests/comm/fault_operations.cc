#include "fault_operations.h"

#include <algorithm>

namespace tutti::comm::test {
namespace {

std::span<float> all(Floats& values) { return values; }

bool is_root(const ProcessGroup& group) { return group.rank() == 1; }

/// The rank's block of a v-form.
std::span<float> block(const ProcessGroup& g, Buffers& b) {
  return all(b.many).first(b.counts[static_cast<std::size_t>(g.rank())]);
}

int next(const ProcessGroup& group) { return (group.rank() + 1) % group.world_size(); }

int previous(const ProcessGroup& group) { return (group.rank() + group.world_size() - 1) % group.world_size(); }

/// Messages in a circle, short and long ones, with asynchronous receives.
void pass_around(ProcessGroup& group, Buffers& b) {
  Work receive = group.irecv(buffer(all(b.gathered).first(b.one.size())), previous(group), 1);
  group.send(all(b.one), next(group), 1);
  receive.wait();
  Work send = group.isend(const_buffer(all(b.many)), next(group), 2);
  group.recv(all(b.many), kAnySource, 2);
  send.wait();
}

void exchange(ProcessGroup& group, Buffers& b) {
  group.sendrecv(const_buffer(all(b.gathered)), next(group), buffer(all(b.received)), previous(group));
}

/// Each message is longer than the 4 MiB from which on a TCP link sends in turns.
void reduce_and_exchange_in_turns(ProcessGroup& group, Buffers& b) {
  constexpr std::size_t kCount = 1'100'000;
  const auto ranks = static_cast<std::size_t>(group.world_size());
  b.huge.resize(std::max(ranks, std::size_t{2}) * kCount);
  group.all_reduce(all(b.huge), ReduceOp::Max);
  group.sendrecv(const_buffer(all(b.huge).first(kCount)), next(group), buffer(all(b.huge).last(kCount)),
                 previous(group));
}

/// Blocks so short that one rank may serve all others.
void exchange_short_blocks(ProcessGroup& group, Buffers& b) {
  constexpr std::size_t kCount = 16;
  const std::size_t whole = kCount * static_cast<std::size_t>(group.world_size());
  group.all_gather(const_buffer(all(b.few)), buffer(all(b.gathered).first(whole)));
  group.reduce_scatter(const_buffer(all(b.gathered).first(whole)), buffer(all(b.few)), ReduceOp::Max);
  group.all_to_all(const_buffer(all(b.gathered).first(whole)), buffer(all(b.received).first(whole)));
}

/// So long that two ranks may read each other's memory.
void exchange_long_blocks(ProcessGroup& group, Buffers& b) {
  constexpr std::size_t kCount = 500'000;
  b.huge.resize(static_cast<std::size_t>(group.world_size()) * kCount);
  group.broadcast(all(b.many), 1);
  group.all_gather(const_buffer(all(b.many).first(kCount)), buffer(all(b.huge)));
}

void scatter_and_gather_in_place(ProcessGroup& group, Buffers& b) {
  const auto ranks = static_cast<std::size_t>(group.world_size());
  const std::size_t count = b.registered.as<float>().size() / ranks;
  const auto whole = b.registered.as<float>().first(count * ranks);
  const auto own = whole.subspan(count * static_cast<std::size_t>(group.rank()), count);
  group.reduce_scatter(whole, own, ReduceOp::Max);
  group.all_gather(own, whole);
  group.broadcast(whole, 1);
}

}  // namespace

Buffers::Buffers(ProcessGroup& group) : registered(group.allocate(4'000'000)) {
  const auto ranks = static_cast<std::size_t>(group.world_size());
  gathered.resize(one.size() * ranks);
  received.resize(gathered.size());
  counts.assign(ranks, one.size());
  counts.front() += 100;
  counts.back() -= 100;
}

const std::map<std::string, Operation>& fault_operations() {
  static const std::map<std::string, Operation> operations = {
      {"all_reduce", [](ProcessGroup& g, Buffers& b) { g.all_reduce(all(b.few)); }},
      {"all_reduce_large", [](ProcessGroup& g, Buffers& b) { g.all_reduce(all(b.many)); }},
      {"broadcast", [](ProcessGroup& g, Buffers& b) { g.broadcast(all(b.one), 1); }},
      {"reduce",
       [](ProcessGroup& g, Buffers& b) {
         g.reduce(const_buffer(all(b.one)), is_root(g) ? buffer(all(b.one)) : Buffer{}, ReduceOp::Max, 1);
       }},
      {"gather",
       [](ProcessGroup& g, Buffers& b) {
         g.gather(const_buffer(all(b.one)), is_root(g) ? buffer(all(b.gathered)) : Buffer{}, 1);
       }},
      {"all_gather",
       [](ProcessGroup& g, Buffers& b) { g.all_gather(const_buffer(all(b.one)), buffer(all(b.gathered))); }},
      {"scatter",
       [](ProcessGroup& g, Buffers& b) {
         g.scatter(is_root(g) ? const_buffer(all(b.gathered)) : ConstBuffer{}, buffer(all(b.one)), 1);
       }},
      {"reduce_scatter",
       [](ProcessGroup& g, Buffers& b) {
         g.reduce_scatter(const_buffer(all(b.gathered)), buffer(all(b.one)), ReduceOp::Max);
       }},
      {"all_to_all",
       [](ProcessGroup& g, Buffers& b) { g.all_to_all(const_buffer(all(b.gathered)), buffer(all(b.received))); }},
      {"gather_v",
       [](ProcessGroup& g, Buffers& b) {
         g.gather_v(const_buffer(block(g, b)), is_root(g) ? buffer(all(b.gathered)) : Buffer{}, b.counts, 1);
       }},
      {"scatter_v",
       [](ProcessGroup& g, Buffers& b) {
         g.scatter_v(is_root(g) ? const_buffer(all(b.gathered)) : ConstBuffer{}, buffer(block(g, b)), b.counts, 1);
       }},
      {"all_gather_v",
       [](ProcessGroup& g, Buffers& b) {
         g.all_gather_v(const_buffer(block(g, b)), buffer(all(b.gathered)), b.counts);
       }},
      {"reduce_scatter_v",
       [](ProcessGroup& g, Buffers& b) {
         g.reduce_scatter_v(const_buffer(all(b.gathered)), buffer(block(g, b)), b.counts, ReduceOp::Max);
       }},
      {"all_to_all_v",
       [](ProcessGroup& g, Buffers& b) {
         const std::vector<std::size_t> equal(b.counts.size(), b.one.size());
         g.all_to_all_v(const_buffer(all(b.gathered)), equal, buffer(all(b.received)), equal);
       }},
      {"registered", [](ProcessGroup& g, Buffers& b) { g.all_reduce(b.registered.as<float>(), ReduceOp::Max); }},
      {"registered_blocks", scatter_and_gather_in_place},
      {"short_blocks", exchange_short_blocks},
      {"long_blocks", exchange_long_blocks},
      {"turns", reduce_and_exchange_in_turns},
      {"barrier", [](ProcessGroup& g, Buffers&) { g.barrier(); }},
      {"async",
       [](ProcessGroup& g, Buffers& b) {
         Work first = g.all_reduce_async(buffer(all(b.many)));
         Work second = g.all_reduce_async(buffer(all(b.few)));
         first.wait();
         second.wait();
       }},
      {"sendrecv", exchange},
      {"p2p", pass_around},
  };
  return operations;
}

/// The others: all_reduce of `count` floats, or the same collective with other arguments.
void disagree(const std::string& what, std::size_t count, ProcessGroup& group, Buffers& b) {
  const auto data = all(b.one).first(count);
  const auto whole = all(b.gathered).first(count * b.counts.size());
  const auto self = static_cast<std::size_t>(group.rank());
  std::vector<std::int32_t> integers(count);
  const bool odd = group.rank() == 1;
  if (what == "root") return group.broadcast(data, odd ? 1 : 0);
  if (what == "counts") {
    std::vector<std::size_t> counts(b.counts.size(), count);
    ++(odd ? counts.back() : counts.front());
    --(odd ? counts.front() : counts.back());
    return group.all_gather_v(const_buffer(all(b.many).first(counts[self])), buffer(whole), counts);
  }
  if (what == "block") {
    const auto input = whole.first(whole.size() / (odd ? 2 : 1));
    return group.all_to_all(const_buffer(input), buffer(all(b.received).first(input.size())));
  }
  if (what == "order" && odd) group.barrier();
  if (!odd || what == "order") return group.all_reduce(data);
  if (what == "operation") return group.broadcast(data, 1);
  if (what == "count") return group.all_reduce(data.first(count - 1));
  if (what == "dtype") return group.all_reduce(std::span(integers));
  group.all_reduce(data, ReduceOp::Max);
}

}  // namespace tutti::comm::test
