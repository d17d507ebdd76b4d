// Heat in a plate: u' = laplace(u) by explicit steps on a grid, a block of rows for each rank. In each step neighbours
// exchange their outermost rows (the halo) while the rows that need none of it are computed. Rank 0 computes the whole
// plate by itself as well, and the two must be equal bit for bit.
#include <tutti/comm/process_group.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

namespace {

using namespace tutti::comm;

constexpr std::size_t kRows = 203, kColumns = 160;  // rows that do not go round
constexpr int kSteps = 400;

/// Rows `first` to `last` of a plate, with a row of halo above and below.
struct Block {
  std::size_t first, last;
  std::vector<double> cells, next;

  Block(std::size_t begin, std::size_t end)
      : first(begin), last(end), cells((end - begin + 2) * kColumns), next(cells) {
    for (std::size_t row = first; row < last; ++row)
      for (std::size_t column = 0; column < kColumns; ++column)
        (*this)(row)[column] = std::sin(0.1 * static_cast<double>(row * column)) * 100.0;
    next = cells;
  }

  std::size_t height() const { return last - first; }
  std::span<double> operator()(std::size_t row) {
    return std::span(cells).subspan((row - first + 1) * kColumns, kColumns);
  }
  std::span<double> halo_above() { return std::span(cells).first(kColumns); }
  std::span<double> halo_below() { return std::span(cells).last(kColumns); }

  /// The edge of the plate keeps its temperature.
  void update(std::size_t row) {
    if (row == 0 || row == kRows - 1) return;
    const double* here = (*this)(row).data();
    double* out = next.data() + (here - cells.data());
    for (std::size_t i = 1; i + 1 < kColumns; ++i)
      out[i] = here[i] + 0.2 * (here[i - 1] + here[i + 1] + here[i - kColumns] + here[i + kColumns] - 4 * here[i]);
  }
};

void step(ProcessGroup& group, Block& block) {
  std::vector<Work> exchange;
  if (block.first > 0) {
    exchange.push_back(group.irecv(buffer(block.halo_above()), group.rank() - 1));
    exchange.push_back(group.isend(buffer(block(block.first)), group.rank() - 1));
  }
  if (block.last < kRows) {
    exchange.push_back(group.irecv(buffer(block.halo_below()), group.rank() + 1));
    exchange.push_back(group.isend(buffer(block(block.last - 1)), group.rank() + 1));
  }
  for (std::size_t row = block.first + 1; row + 1 < block.last; ++row) block.update(row);
  for (Work& message : exchange) message.wait();
  block.update(block.first);
  if (block.height() > 1) block.update(block.last - 1);
  block.cells.swap(block.next);
}

}  // namespace

int main() {
  const auto group = ProcessGroup::connect(World::detect());
  const auto rank = static_cast<std::size_t>(group->rank()), ranks = static_cast<std::size_t>(group->world_size());
  if (ranks > kRows) return std::fprintf(stderr, "more ranks than rows (%zu)\n", kRows), 2;
  const auto first_row = [&](std::size_t r) { return kRows * r / ranks; };

  Block block(first_row(rank), first_row(rank + 1));
  for (int i = 0; i < kSteps; ++i) step(*group, block);

  std::vector<std::size_t> counts;
  for (std::size_t r = 0; r < ranks; ++r) counts.push_back((first_row(r + 1) - first_row(r)) * kColumns);
  std::vector<double> plate(rank == 0 ? kRows * kColumns : 0);
  const std::span<double> mine = std::span(block.cells).subspan(kColumns, counts[rank]);
  group->gather_v(buffer(mine), buffer(std::span(plate)), counts, 0);
  group->shutdown();
  if (rank > 0) return 0;

  Block alone(0, kRows);
  for (int i = 0; i < kSteps; ++i) {
    for (std::size_t row = 0; row < kRows; ++row) alone.update(row);
    alone.cells.swap(alone.next);
  }
  const bool equal = std::equal(plate.begin(), plate.end(), alone(0).begin());
  std::printf("%zu x %zu cells, %d steps, %zu ranks: %s the serial run\n", kRows, kColumns, kSteps, ranks,
              equal ? "equal to" : "DIFFERENT from");
  return equal ? 0 : 1;
}
