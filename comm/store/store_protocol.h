// The store's messages as bytes: encode and decode only.
//
// Pure functions, no I/O; every decoder takes any bytes whatever and either returns a message or throws Protocol.
// Layout: wire_format.md, "Store protocol". Thread-safety: values and pure functions.
#pragma once

#include <tutti/comm/store/store.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tutti::comm {

enum class StoreStatus : std::uint8_t { Ok = 0, InvalidArgument = 1, Timeout = 2, Protocol = 3 };

inline constexpr std::size_t kStoreHeaderBytes = 16;
inline constexpr std::size_t kMaxStoreBodyBytes = 256 * 1024 * 1024;

/// As it travels. `code` is a StoreOp in a request and a StoreStatus in a reply; not checked by decoding the header.
struct StoreHeader {
  std::uint32_t body_bytes = 0;
  std::uint8_t code = 0;
  std::array<std::uint8_t, 3> reserved{};
  std::uint32_t id = 0;  // chosen by the client, returned in the reply
  std::uint32_t reserved_too = 0;
};
static_assert(sizeof(StoreHeader) == kStoreHeaderBytes);

/// Appends one whole message to `out`. Throws InvalidArgument, leaving `out` as it was, if the body is over
/// kMaxStoreBodyBytes.
void append_store_message(std::string& out, std::uint8_t code, std::uint32_t id, const StoreBody& body);

/// Any 16 bytes are a header; the receiver checks its fields, and can stay in step either way.
StoreHeader decode_store_header(std::span<const std::byte, kStoreHeaderBytes> bytes);

/// Throws Protocol naming the field and the offset. Takes no memory beyond 4 times the bytes given.
StoreBody decode_store_body(std::span<const std::byte> bytes);

}  // namespace tutti::comm
