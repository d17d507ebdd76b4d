#include <tutti/tools/labs/play.h>

#include <algorithm>

namespace tutti::labs {
namespace {

// The low bits are the value, the others one counter for each rank.
constexpr unsigned kValueBits = 16;
constexpr unsigned kMostCounterBits = 8;

unsigned counter_bits(int world_size) {
  return std::min(kMostCounterBits, (64 - kValueBits) / static_cast<unsigned>(std::max(world_size, 1)));
}

std::uint64_t low_bits(std::uint64_t word, unsigned bits) { return word & ((std::uint64_t{1} << bits) - 1); }

}  // namespace

std::uint64_t play_word(int rank, std::size_t index, int world_size) {
  const std::uint64_t value = 10 * (static_cast<std::uint64_t>(rank) + 1) + index % 10;
  if (world_size > kMostPlayRanks) return low_bits(value, kValueBits);
  return value + (std::uint64_t{1} << (kValueBits + counter_bits(world_size) * static_cast<unsigned>(rank)));
}

PlayContent play_content(std::uint64_t word, int world_size) {
  PlayContent content{.value = low_bits(word, kValueBits)};
  if (world_size > kMostPlayRanks) return content;
  const unsigned bits = counter_bits(world_size);
  word >>= kValueBits;
  for (int rank = 0; rank < world_size; ++rank, word >>= bits) {
    content.times.push_back(static_cast<unsigned>(low_bits(word, bits)));
  }
  return content;
}

}  // namespace tutti::labs
