#include <tutti/comm/base/error.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/torch/torch_request.h>
#include <tutti/comm/wire/printable.h>

#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

namespace tutti::comm {
namespace {

// k: a key, v: a value, n: a 64-bit number, u: a 32-bit one, c: how many times the fields behind it come.
constexpr std::array<std::string_view, 19> kLayouts{
    "u",    // Validate
    "kv",   // Set
    "kvv",  // CompareSet
    "k",    // Get
    "kn",   // Add
    "ck",   // Check
    "ck",   // Wait
    "",     // NumKeys
    "k",    // DeleteKey
    "kv",   // Append
    "ck",   // MultiGet
    "ckv",  // MultiSet
    "",     // CancelWait
    "u",    // Ping
    "-",    // QUEUE_PUSH: not offered
    "-",    // QUEUE_POP
    "-",    // QUEUE_LEN
    "",     // ListKeys
    "kn",   // Barrier
};

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint8_t kLegacyWatchKey = 7;
constexpr std::size_t kOpeningBytes = 5;     // 00 and the magic number
constexpr std::size_t kBytesPerString = 64;  // what an empty string costs us, roughly

template <typename... Parts>
[[noreturn]] void bad_query(const Parts&... text) {
  throw Error(ErrorCode::Protocol, text...);
}

static_assert(std::endian::native == std::endian::little, "numbers are sent as they lie in memory");

std::uint64_t decode(std::string_view bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  return value;
}

}  // namespace

std::size_t TorchRequestReader::feed(std::string_view bytes) {
  std::size_t taken = 0;
  if (generation_ == TorchGeneration::Unknown) taken = open(bytes);
  if (generation_ == TorchGeneration::Unknown) return 0;
  while (!is_ready()) {
    const std::string_view rest = bytes.substr(taken);
    const std::size_t count = next_bytes(rest);
    if (rest.size() < count) break;
    if (begun_) {
      take_field(rest.substr(0, count));
    } else {
      take_code(static_cast<std::uint8_t>(rest[0]));
    }
    taken += count;
  }
  return taken;
}

// Legacy's SET has the code 0 as well, but a length where VALIDATE has its number, and no key is as long as that.
std::size_t TorchRequestReader::open(std::string_view bytes) {
  if (bytes.empty() || (bytes.front() == '\0' && bytes.size() < kOpeningBytes)) return 0;
  const bool modern = bytes.front() == '\0' && decode(bytes.substr(1, kOpeningBytes - 1)) == kTorchMagic;
  generation_ = modern ? TorchGeneration::Modern : TorchGeneration::Legacy;
  return modern ? kOpeningBytes : 0;  // VALIDATE has no answer
}

/// How many bytes the code or the next field has, as far as these, its first ones, tell.
std::size_t TorchRequestReader::next_bytes(std::string_view bytes) const {
  if (!begun_) return 1;
  const char field = fields_.front();
  if (field == 'u') return 4;
  if (field == 'n' || field == 'c' || bytes.size() < kLengthBytes) return 8;
  const std::uint64_t length = decode(bytes.substr(0, kLengthBytes));
  const std::size_t limit = field == 'k' ? kMaxKeyBytes : kMaxValueBytes;
  if (length > limit) bad_query(field == 'k' ? "a key" : "a value", " of ", length, " bytes; the limit is ", limit);
  return kLengthBytes + length;
}

void TorchRequestReader::take_code(std::uint8_t code) {
  const std::uint8_t sent = code;
  if (generation_ == TorchGeneration::Legacy) {
    if (code == kLegacyWatchKey) bad_query("WATCH_KEY (code 7 of PyTorch before 2.1) is not offered here");
    if (code < kLegacyWatchKey) ++code;
  }
  if (code >= kLayouts.size()) {
    const std::byte shown{sent};
    bad_query("no query of PyTorch's TCPStore has the code ", quote_bytes(std::span(&shown, 1)));
  }
  if (kLayouts[code] == "-")
    bad_query("queues (code ", code,
              ", QUEUE_PUSH and the like) are not offered here: with tutti run "
              "--no-store rank 0 serves PyTorch's own store, which has them");
  request_ = TorchRequest{static_cast<TorchQuery>(code), {}, 0};
  begun_ = true;
  fields_ = kLayouts[code];
  rounds_ = 0;
}

void TorchRequestReader::take_field(std::string_view bytes) {
  const char field = fields_.front();
  fields_.remove_prefix(1);
  if (field == 'c') {
    rounds_ = decode(bytes);
    if (rounds_ > kMaxKeysPerCall) bad_query(rounds_, " keys in one query; the limit is ", kMaxKeysPerCall);
    fields_ = {};
  } else if (field == 'k' || field == 'v') {
    request_bytes_ += kBytesPerString + bytes.size();
    if (request_bytes_ > kMaxTorchRequestBytes) bad_query("a query of more than ", kMaxTorchRequestBytes, " bytes");
    request_.strings.emplace_back(bytes.substr(kLengthBytes));
  } else {
    request_.number = static_cast<std::int64_t>(decode(bytes));
    if (request_.query == TorchQuery::Validate && request_.number != kTorchMagic)
      bad_query("VALIDATE with the number ", hex(decode(bytes)), " in place of ", hex(kTorchMagic));
  }
  if (!fields_.empty() || rounds_ == 0) return;
  --rounds_;
  fields_ = kLayouts[static_cast<std::size_t>(request_.query)].substr(1);
}

std::optional<TorchRequest> TorchRequestReader::take() {
  if (!is_ready()) return std::nullopt;
  begun_ = false;
  request_bytes_ = 0;
  return std::exchange(request_, {});
}

std::string torch_number(std::uint64_t value, std::size_t nbytes) {
  return {reinterpret_cast<const char*>(&value), nbytes};
}

std::string torch_bytes(std::string_view bytes) { return torch_number(bytes.size()).append(bytes); }

}  // namespace tutti::comm
