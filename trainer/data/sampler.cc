#include <tutti/tensor/random.h>
#include <tutti/trainer/data/sampler.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace tutti::trainer {
namespace {

void check(std::int64_t count, int replicas, int rank) {
  if (count < 0) {
    throw std::invalid_argument("sampler: count is " + std::to_string(count) + ", expected 0 or more samples");
  }
  if (replicas < 1) {
    throw std::invalid_argument("sampler: replicas is " + std::to_string(replicas) + ", expected 1 or more");
  }
  if (rank < 0 || rank >= replicas) {
    throw std::invalid_argument("sampler: rank is " + std::to_string(rank) + ", expected 0 to " +
                                std::to_string(replicas - 1));
  }
}

void check_epoch(std::int64_t epoch) {
  if (epoch < 0) {
    throw std::invalid_argument("sampler: epoch is " + std::to_string(epoch) + ", expected 0 or more");
  }
}

std::vector<std::int64_t> in_order(std::int64_t count) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

}  // namespace

std::int64_t dealt(std::int64_t cards, int rank, int ranks) {
  return cards > rank ? (cards - rank + ranks - 1) / ranks : 0;
}

DistributedSampler::DistributedSampler(const SamplerOptions& options) : options_(options) {
  check(options.count, options.replicas, options.rank);
  if (options.multiple < 1) {
    throw std::invalid_argument("sampler: multiple is " + std::to_string(options.multiple) + ", expected 1 or more");
  }
  if (options.global_batch < 0 || options.padded_for < 0) {
    throw std::invalid_argument("sampler: global_batch is " + std::to_string(options.global_batch) +
                                " and padded_for is " + std::to_string(options.padded_for) + ", expected 0 or more");
  }
  const int ranks = options.padded_for > 0 ? options.padded_for : options.replicas;
  const std::int64_t unit = std::lcm(options.drop_last || options.padding ? ranks : 1, options.multiple);
  total_ = (options.drop_last ? options.count : options.count + unit - 1) / unit * unit;
}

/// Samples that are dealt out together.
std::int64_t DistributedSampler::deal() const {
  return options_.global_batch > 0 ? options_.global_batch : std::max<std::int64_t>(1, total_);
}

std::int64_t DistributedSampler::size_of(int rank) const {
  return total_ / deal() * dealt(deal(), rank, options_.replicas) + dealt(total_ % deal(), rank, options_.replicas);
}

std::int64_t DistributedSampler::samples_of_step(std::int64_t step, std::int64_t batch_size) const {
  // Dealt like cards, so a step of all ranks is a run of the list.
  const std::int64_t cards = options_.global_batch > 0 ? options_.global_batch : batch_size * options_.replicas;
  return std::clamp<std::int64_t>(total_ - step * cards, 0, cards);
}

std::vector<std::int64_t> DistributedSampler::indices(std::int64_t epoch) const {
  check_epoch(epoch);
  const auto seed = options_.seed + static_cast<std::uint64_t>(epoch);
  const auto order = options_.shuffle ? tensor::randperm(options_.count, seed) : in_order(options_.count);
  std::vector<std::int64_t> mine;
  mine.reserve(static_cast<std::size_t>(size()));
  // Position p of the padded list is order[p mod N]: padding repeats the list from its beginning, as often as needed.
  for (std::int64_t first = 0; first < total_; first += deal()) {
    const std::int64_t end = std::min(first + deal(), total_);
    for (std::int64_t position = first + options_.rank; position < end; position += options_.replicas) {
      mine.push_back(order[static_cast<std::size_t>(position % options_.count)]);
    }
  }
  return mine;
}

EvaluationSampler::EvaluationSampler(std::int64_t count, int replicas, int rank) {
  check(count, replicas, rank);
  begin_ = count * rank / replicas;
  end_ = count * (rank + 1) / replicas;
}

std::vector<std::int64_t> EvaluationSampler::indices(std::int64_t epoch) const {
  check_epoch(epoch);
  std::vector<std::int64_t> mine(static_cast<std::size_t>(size()));
  std::iota(mine.begin(), mine.end(), begin_);
  return mine;
}

}  // namespace tutti::trainer
