// Fixed-width little-endian integers in byte buffers: the only way numbers get into and out of our messages.
//
// Pure functions; the caller has checked that the bytes are there.
#pragma once

#include <concepts>
#include <cstddef>

namespace tutti::comm {

template <std::unsigned_integral T>
void put_little_endian(std::byte* to, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to[i] = static_cast<std::byte>((value >> (8 * i)) & 0xff);
}

template <std::unsigned_integral T>
T get_little_endian(const std::byte* from) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(std::to_integer<unsigned>(from[i])) << (8 * i)));
  }
  return value;
}

}  // namespace tutti::comm
