// Recursive halving, then recursive doubling over the same halves backwards; ranks beyond a power of two fold in first.
#include <tutti/tools/labs/lab.h>

#include <bit>
#include <vector>

using namespace tutti::labs;

namespace {

struct Round {
  int partner;
  std::size_t kept_begin, kept_end, given_begin, given_end;
};

std::vector<Round> halving(int id, int q, std::size_t count) {
  std::vector<Round> rounds;
  std::size_t begin = 0, end = count;
  for (int distance = q / 2; distance > 0; distance /= 2) {
    const std::size_t middle = begin + (end - begin) / 2;
    if ((id & distance) == 0) {
      rounds.push_back({id ^ distance, begin, middle, middle, end});
      end = middle;
    } else {
      rounds.push_back({id ^ distance, middle, end, begin, middle});
      begin = middle;
    }
  }
  return rounds;
}

}  // namespace

template <typename T>
void all_reduce(Ranks& ranks, std::span<T> data, const Operator<T>& op) {
  const int p = ranks.world_size();
  const int rank = ranks.rank();
  const int q = static_cast<int>(std::bit_floor(static_cast<unsigned>(p)));
  std::vector<T> memory(data.size());
  if (rank >= q) {
    ranks.send(data, rank - q);
    ranks.recv(data, rank - q);
    return;
  }
  if (rank + q < p) {
    ranks.recv(std::span<T>(memory), rank + q);
    op(data, memory);
  }
  const std::vector<Round> rounds = halving(rank, q, data.size());
  for (const Round& round : rounds) {
    const std::span<T> kept = data.subspan(round.kept_begin, round.kept_end - round.kept_begin);
    const std::span<T> given = data.subspan(round.given_begin, round.given_end - round.given_begin);
    const std::span<T> incoming = std::span(memory).first(kept.size());
    ranks.sendrecv(std::span<const T>(given), round.partner, incoming, round.partner);
    op(kept, incoming);
  }
  for (std::size_t k = rounds.size(); k-- > 0;) {
    const Round& round = rounds[k];
    ranks.sendrecv(std::span<const T>(data.subspan(round.kept_begin, round.kept_end - round.kept_begin)), round.partner,
                   data.subspan(round.given_begin, round.given_end - round.given_begin), round.partner);
  }
  if (rank + q < p) ranks.send(data, rank + q);
}

TUTTI_LAB_ALL_REDUCE(all_reduce)
