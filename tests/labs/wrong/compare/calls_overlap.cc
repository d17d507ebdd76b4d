// Nobody waits for anybody between calls: a rate is measured, not a time.
#include <tutti/tools/labs/lab_measure.h>

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

using tutti::labs::Operator;
using tutti::labs::Ranks;

template <typename T>
void reduce(Ranks& ranks, std::span<const T> input, std::span<T> output, const Operator<T>& op, int root) {
  const int size = ranks.world_size(), place = (ranks.rank() - root + size) % size;
  std::vector<T> sum(input.begin(), input.end()), other(input.size());
  for (int distance = 1; distance < size; distance *= 2) {
    if ((place & distance) != 0) {
      ranks.send(std::span<const T>(sum), (place - distance + root) % size);
      return;
    }
    if (place + distance >= size) continue;
    ranks.recv(std::span<T>(other), (place + distance + root) % size);
    op(std::span<T>(sum), std::span<const T>(other));
  }
  std::copy(sum.begin(), sum.end(), output.begin());
}

template <typename T>
void all_reduce(Ranks& ranks, std::span<T> data, const Operator<T>& op) {
  const int size = ranks.world_size(), rank = ranks.rank();
  const std::vector<T> input(data.begin(), data.end());
  reduce<T>(ranks, std::span<const T>(input), rank == 0 ? data : std::span<T>(), op, 0);
  int distance = 1;
  while (distance < size) distance *= 2;
  for (distance /= 2; distance > 0; distance /= 2) {
    if (rank % (2 * distance) == 0 && rank + distance < size) ranks.send(std::span<const T>(data), rank + distance);
    if (rank % (2 * distance) == distance) ranks.recv(data, rank - distance);
  }
}

void meet(Ranks& ranks) {
  unsigned char token = 0;
  const std::span<unsigned char> message(&token, 1);
  if (ranks.rank() > 0) {
    ranks.send(message, 0, 1);
    ranks.recv(message, 0, 2);
    return;
  }
  for (int rank = 1; rank < ranks.world_size(); ++rank) ranks.recv(message, rank, 1);
  for (int rank = 1; rank < ranks.world_size(); ++rank) ranks.send(message, rank, 2);
}

double slowest(Ranks& ranks, double seconds) {
  const std::span<double> message(&seconds, 1);
  if (ranks.rank() > 0) {
    ranks.send(message, 0, 3);
    return seconds;
  }
  double most = seconds;
  for (int rank = 1; rank < ranks.world_size(); ++rank) {
    ranks.recv(message, rank, 3);
    most = std::max(most, seconds);
  }
  return most;
}

double call_seconds(Ranks& ranks, const std::function<void()>& call, int repetitions) {
  call();  // the first one is slower, and not counted
  meet(ranks);
  const double first = ranks.seconds();
  for (int i = 0; i < repetitions; ++i) {
    call();
  }
  return slowest(ranks, ranks.seconds() - first) / repetitions;
}

TUTTI_LAB_REDUCE(reduce)
TUTTI_LAB_ALL_REDUCE(all_reduce)
TUTTI_LAB_CALL_SECONDS(call_seconds)
