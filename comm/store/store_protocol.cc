#include <tutti/comm/base/error.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_protocol.h>

#include <bit>
#include <cstring>

namespace tutti::comm {
namespace {

constexpr std::size_t kNumberBytes = 8;
constexpr std::size_t kCountBytes = 4;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMaxStrings = 2 * kMaxKeysPerCall;

static_assert(std::endian::native == std::endian::little, "the wire is little endian; swap here for another host");

template <typename T>
void append_value(std::string& out, const T& value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T value_at(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

[[noreturn]] void malformed(const std::string& what) { throw Error(ErrorCode::Protocol, "store message: ", what); }

std::size_t body_bytes_of(const StoreBody& body) {
  std::size_t total = kNumberBytes + kCountBytes;
  for (const std::string_view text : body.strings) total += kLengthBytes + text.size();
  return total;
}

}  // namespace

void append_store_message(std::string& out, std::uint8_t code, std::uint32_t id, const StoreBody& body) {
  const std::size_t body_bytes = body_bytes_of(body);
  if (body_bytes > kMaxStoreBodyBytes) {
    refuse("one store call of ", body_bytes, " bytes; the limit is ", kMaxStoreBodyBytes, ": split the call");
  }
  out.reserve(out.size() + kStoreHeaderBytes + body_bytes);
  append_value(out, StoreHeader{.body_bytes = static_cast<std::uint32_t>(body_bytes), .code = code, .id = id});
  append_value(out, body.number);
  append_value(out, static_cast<std::uint32_t>(body.strings.size()));
  for (const std::string_view text : body.strings) {
    append_value(out, static_cast<std::uint32_t>(text.size()));
    out.append(text);
  }
}

StoreHeader decode_store_header(std::span<const std::byte, kStoreHeaderBytes> bytes) {
  return value_at<StoreHeader>(bytes.data());
}

StoreBody decode_store_body(std::span<const std::byte> bytes) {
  if (bytes.size() < kNumberBytes + kCountBytes) {
    malformed(joined("a body of ", bytes.size(), " bytes is shorter than its fixed part"));
  }
  StoreBody body;
  body.number = value_at<std::int64_t>(&bytes[0]);
  const std::size_t count = value_at<std::uint32_t>(&bytes[kNumberBytes]);
  std::size_t at = kNumberBytes + kCountBytes;
  if (count > kMaxStrings || count > (bytes.size() - at) / kLengthBytes) {
    malformed(joined("it announces ", count, " strings in a body of ", bytes.size(), " bytes (the limit is ",
                     kMaxStrings, ")"));
  }
  body.strings.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (bytes.size() - at < kLengthBytes) malformed("it ends before string " + std::to_string(i));
    const std::size_t length = value_at<std::uint32_t>(&bytes[at]);
    at += kLengthBytes;
    if (length > bytes.size() - at) {
      malformed(
          joined("string ", i, " at offset ", at, " announces ", length, " bytes; ", bytes.size() - at, " are left"));
    }
    body.strings.emplace_back(reinterpret_cast<const char*>(bytes.data()) + at, length);
    at += length;
  }
  if (at != bytes.size()) malformed(std::to_string(bytes.size() - at) + " bytes are left over after its last string");
  return body;
}

}  // namespace tutti::comm
