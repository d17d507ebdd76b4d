#include <tutti/tensor/keyed_stream.h>

#include <cstddef>
#include <limits>

namespace tutti::tensor {
namespace {

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
std::uint64_t product(std::uint32_t a, std::uint32_t b) { return static_cast<std::uint64_t>(a) * b; }

// The constants of Philox4x32-10.
constexpr int kRounds = 10;
constexpr std::uint32_t kFirst = 0xd2511f53u;
constexpr std::uint32_t kSecond = 0xcd9e8d57u;
std::array<std::uint32_t, 2> next_key(std::array<std::uint32_t, 2> key) {
  return {key[0] + 0x9e3779b9u, key[1] + 0xbb67ae85u};
}

// kBlocks blocks of successive counters at once, so that the compiler may use wide registers. The low word of the
// counter must not overflow on the way.
constexpr std::size_t kBlocks = 32;

void philox_blocks(std::uint32_t* out, std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  std::uint32_t c0[kBlocks];
  std::uint32_t c1[kBlocks];
  std::uint32_t c2[kBlocks];
  std::uint32_t c3[kBlocks];
  for (std::size_t i = 0; i < kBlocks; ++i) {
    c0[i] = counter[0] + static_cast<std::uint32_t>(i);
    c1[i] = counter[1];
    c2[i] = counter[2];
    c3[i] = counter[3];
  }
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kBlocks; ++i) {
      const std::uint64_t first = product(kFirst, c0[i]);
      const std::uint64_t second = product(kSecond, c2[i]);
      c0[i] = high(second) ^ c1[i] ^ key[0];
      c1[i] = low(second);
      c2[i] = high(first) ^ c3[i] ^ key[1];
      c3[i] = low(first);
    }
    key = next_key(key);
  }
  for (std::size_t i = 0; i < kBlocks; ++i) {
    out[4 * i] = c0[i];
    out[4 * i + 1] = c1[i];
    out[4 * i + 2] = c2[i];
    out[4 * i + 3] = c3[i];
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t first = product(kFirst, counter[0]);
    const std::uint64_t second = product(kSecond, counter[2]);
    counter = {high(second) ^ counter[1] ^ key[0], low(second), high(first) ^ counter[3] ^ key[1], low(first)};
    key = next_key(key);
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

void KeyedStream::fill(std::span<std::uint32_t> out) {
  while (!out.empty() && used_ != 4) {
    out.front() = next();
    out = out.subspan(1);
  }
  constexpr std::uint32_t kLastStart = std::numeric_limits<std::uint32_t>::max() - static_cast<std::uint32_t>(kBlocks);
  while (out.size() >= 4 * kBlocks && counter_[0] < kLastStart) {
    philox_blocks(out.data(), counter_, key_);
    counter_[0] += static_cast<std::uint32_t>(kBlocks);
    out = out.subspan(4 * kBlocks);
  }
  for (std::uint32_t& number : out) number = next();
}

float KeyedStream::uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }

std::uint32_t KeyedStream::below(std::uint32_t below) { return high(product(next(), below)); }

}  // namespace tutti::tensor
