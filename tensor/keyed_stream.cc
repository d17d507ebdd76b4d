#include <tutti/tensor/keyed_stream.h>

namespace tutti::tensor {
namespace {

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
std::uint64_t product(std::uint32_t a, std::uint32_t b) { return static_cast<std::uint64_t>(a) * b; }

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t first = product(0xd2511f53u, counter[0]);
    const std::uint64_t second = product(0xcd9e8d57u, counter[2]);
    counter = {high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1], low(first)};
    key = {key[0] + 0x9e3779b9u, key[1] + 0xbb67ae85u};
  }
  return counter;
}

std::uint64_t sample_key(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample) {
  const auto mixed = philox({low(sample), high(sample), low(epoch), high(epoch)}, {low(seed), high(seed)});
  return static_cast<std::uint64_t>(mixed[1]) << 32 | mixed[0];
}

KeyedStream::KeyedStream(std::uint64_t key, std::uint64_t purpose)
    : key_{low(key), high(key)}, counter_{0, 0, low(purpose), high(purpose)} {}

std::uint32_t KeyedStream::next() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

float KeyedStream::uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }

std::uint32_t KeyedStream::below(std::uint32_t below) { return high(product(next(), below)); }

}  // namespace tutti::tensor
