#include <tutti/comm/base/error.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_protocol.h>
#include <tutti/comm/wire/little_endian.h>

namespace tutti::comm {
namespace {

constexpr std::size_t kNumberBytes = 8;
constexpr std::size_t kCountBytes = 4;
constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kMaxStrings = 2 * kMaxKeysPerCall;

template <std::unsigned_integral T>
void append_integer(std::string& out, T value) {
  std::array<std::byte, sizeof(T)> bytes;
  put_little_endian(bytes.data(), value);
  out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

[[noreturn]] void malformed(const std::string& what) { throw Error(ErrorCode::Protocol, "store message: " + what); }

std::size_t body_bytes_of(const StoreBody& body) {
  std::size_t total = kNumberBytes + kCountBytes;
  for (const std::string_view text : body.strings) total += kLengthBytes + text.size();
  return total;
}

}  // namespace

void append_store_message(std::string& out, std::uint8_t code, std::uint32_t id, const StoreBody& body) {
  const std::size_t body_bytes = body_bytes_of(body);
  if (body_bytes > kMaxStoreBodyBytes) {
    throw Error(ErrorCode::InvalidArgument, "one store call of " + std::to_string(body_bytes) +
                                                " bytes; the limit is " + std::to_string(kMaxStoreBodyBytes) +
                                                ": split the call");
  }
  out.reserve(out.size() + kStoreHeaderBytes + body_bytes);
  append_integer(out, static_cast<std::uint32_t>(body_bytes));
  append_integer(out, std::uint32_t{code});  // the code, and three reserved bytes
  append_integer(out, id);
  append_integer(out, std::uint32_t{0});  // reserved
  append_integer(out, static_cast<std::uint64_t>(body.number));
  append_integer(out, static_cast<std::uint32_t>(body.strings.size()));
  for (const std::string_view text : body.strings) {
    append_integer(out, static_cast<std::uint32_t>(text.size()));
    out.append(text);
  }
}

StoreHeader decode_store_header(std::span<const std::byte, kStoreHeaderBytes> bytes) {
  StoreHeader header;
  header.body_bytes = get_little_endian<std::uint32_t>(&bytes[0]);
  header.code = get_little_endian<std::uint8_t>(&bytes[4]);
  header.id = get_little_endian<std::uint32_t>(&bytes[8]);
  return header;
}

StoreBody decode_store_body(std::span<const std::byte> bytes) {
  if (bytes.size() < kNumberBytes + kCountBytes) {
    malformed("a body of " + std::to_string(bytes.size()) + " bytes is shorter than its fixed part");
  }
  StoreBody body;
  body.number = static_cast<std::int64_t>(get_little_endian<std::uint64_t>(&bytes[0]));
  const std::size_t count = get_little_endian<std::uint32_t>(&bytes[kNumberBytes]);
  std::size_t at = kNumberBytes + kCountBytes;
  if (count > kMaxStrings || count > (bytes.size() - at) / kLengthBytes) {
    malformed("it announces " + std::to_string(count) + " strings in a body of " + std::to_string(bytes.size()) +
              " bytes (the limit is " + std::to_string(kMaxStrings) + ")");
  }
  body.strings.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (bytes.size() - at < kLengthBytes) malformed("it ends before string " + std::to_string(i));
    const std::size_t length = get_little_endian<std::uint32_t>(&bytes[at]);
    at += kLengthBytes;
    if (length > bytes.size() - at) {
      malformed("string " + std::to_string(i) + " at offset " + std::to_string(at) + " announces " +
                std::to_string(length) + " bytes; " + std::to_string(bytes.size() - at) + " are left");
    }
    body.strings.emplace_back(reinterpret_cast<const char*>(bytes.data()) + at, length);
    at += length;
  }
  if (at != bytes.size()) malformed(std::to_string(bytes.size() - at) + " bytes are left over after its last string");
  return body;
}

}  // namespace tutti::comm
