// What the fuzz targets share: the input as a source of numbers and bytes.
//
// Each target is `extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t*, std::size_t)`, which must return 0 for
// every input: errors that comm throws are part of its promises, everything else (another exception, a sanitizer's
// report, a failed require()) is a finding.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

namespace tutti::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : bytes_(reinterpret_cast<const std::byte*>(data), size) {}

  bool empty() const { return bytes_.empty(); }

  /// The next bytes; fewer if the input ends.
  std::span<const std::byte> take(std::size_t count) {
    const auto taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> rest() { return take(bytes_.size()); }

  /// The next bytes as a T; zeros where the input ends.
  template <typename T>
  T number() {
    T value{};
    const auto bytes = take(sizeof(T));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }

  template <std::size_t N>
  std::array<std::byte, N> array() {
    std::array<std::byte, N> result{};
    const auto bytes = take(N);
    std::copy(bytes.begin(), bytes.end(), result.begin());
    return result;
  }

  std::string text() {
    const auto bytes = rest();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::span<const std::byte> bytes_;
};

/// Ends the program when a property of the code under test does not hold.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace tutti::fuzz
