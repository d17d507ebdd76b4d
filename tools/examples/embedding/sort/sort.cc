// Sorts numbers that are spread over all ranks: every rank sorts its own, all agree on splitters from samples, each
// sends to each what falls between its splitters, and every rank sorts what it got. (Parallel sorting by regular
// sampling: Shi and Schaeffer, https://doi.org/10.1016/0743-7315(92)90075-X.) Rank 0 sorts all of them by itself and
// compares.
#include <tutti/comm/process_group.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace {

using namespace tutti::comm;
using Keys = std::vector<std::uint64_t>;

/// Ranks have different numbers of keys, and half of all keys are small, so that splitters matter.
Keys keys_of(int rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  Keys keys(20'000 + 3'000 * static_cast<std::size_t>(rank));
  for (std::uint64_t& key : keys) key = random() % 2 == 0 ? random() % 1'000'000 : random();
  return keys;
}

/// ranks - 1 keys that cut all keys into parts of about equal length; the same on all ranks.
Keys splitters(ProcessGroup& group, const Keys& sorted) {
  const auto ranks = static_cast<std::size_t>(group.world_size());
  Keys samples(ranks), all(ranks * ranks);
  for (std::size_t i = 0; i < ranks; ++i) samples[i] = sorted[i * sorted.size() / ranks];
  group.all_gather(std::span(samples), std::span(all));
  std::sort(all.begin(), all.end());
  Keys cuts;
  for (std::size_t i = 1; i < ranks; ++i) cuts.push_back(all[i * ranks + ranks / 2]);
  return cuts;
}

/// How many of `sorted` go to each rank.
Keys parts(const Keys& sorted, const Keys& cuts) {
  Keys lengths;
  auto begin = sorted.begin();
  for (const std::uint64_t cut : cuts) {
    const auto end = std::lower_bound(begin, sorted.end(), cut);
    lengths.push_back(static_cast<std::uint64_t>(end - begin));
    begin = end;
  }
  lengths.push_back(static_cast<std::uint64_t>(sorted.end() - begin));
  return lengths;
}

Keys distributed_sort(ProcessGroup& group, Keys keys) {
  std::sort(keys.begin(), keys.end());
  Keys sent = parts(keys, splitters(group, keys)), received(sent.size());
  group.all_to_all(std::span(sent), std::span(received));
  Keys mine(std::accumulate(received.begin(), received.end(), std::uint64_t{0}));
  group.all_to_all_v(const_buffer(std::span(keys)), sent, buffer(std::span(mine)), received);
  std::sort(mine.begin(), mine.end());
  return mine;
}

}  // namespace

int main() {
  const auto group = ProcessGroup::connect(World::detect());
  Keys mine = distributed_sort(*group, keys_of(group->rank()));

  Keys lengths(static_cast<std::size_t>(group->world_size())), length{mine.size()};
  group->all_gather(std::span(length), std::span(lengths));
  Keys sorted(group->rank() == 0 ? std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0}) : 0);
  group->gather_v(buffer(std::span(mine)), buffer(std::span(sorted)), lengths, 0);
  group->shutdown();
  if (group->rank() > 0) return 0;

  Keys alone;
  for (int rank = 0; rank < group->world_size(); ++rank) {
    const Keys keys = keys_of(rank);
    alone.insert(alone.end(), keys.begin(), keys.end());
  }
  std::sort(alone.begin(), alone.end());
  std::printf("%zu keys on %d ranks, %zu to %zu each: %s the serial sort\n", sorted.size(), group->world_size(),
              *std::min_element(lengths.begin(), lengths.end()), *std::max_element(lengths.begin(), lengths.end()),
              sorted == alone ? "equal to" : "DIFFERENT from");
  return sorted == alone ? 0 : 1;
}
