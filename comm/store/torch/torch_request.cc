#include <tutti/comm/base/error.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/torch/torch_request.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

namespace tutti::comm {
namespace {

// k: a key, v: a value, n: a 64-bit number, u: a 32-bit one. In a list a count comes first, and the fields so often.
struct Layout {
  bool list;
  std::string_view fields;
};

constexpr std::array<Layout, 19> kLayouts{{
    {false, "u"},    // Validate
    {false, "kv"},   // Set
    {false, "kvv"},  // CompareSet
    {false, "k"},    // Get
    {false, "kn"},   // Add
    {true, "k"},     // Check
    {true, "k"},     // Wait
    {false, ""},     // NumKeys
    {false, "k"},    // DeleteKey
    {false, "kv"},   // Append
    {true, "k"},     // MultiGet
    {true, "kv"},    // MultiSet
    {false, ""},     // CancelWait
    {false, "u"},    // Ping
    {false, "-"},    // QUEUE_PUSH: not offered
    {false, "-"},    // QUEUE_POP
    {false, "-"},    // QUEUE_LEN
    {false, ""},     // ListKeys
    {false, "kn"},   // Barrier
}};

constexpr std::uint8_t kLegacyWatchKey = 7;
constexpr std::size_t kOpeningBytes = 5;     // 00 and the magic number
constexpr std::size_t kBytesPerString = 64;  // what an empty string costs us, roughly

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorCode::Protocol, text); }

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
  while (step_ != Step::Ready && bytes.size() - taken >= needed()) {
    const std::size_t count = needed();
    take_field(bytes.substr(taken, count));
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

std::size_t TorchRequestReader::needed() const {
  if (step_ == Step::Code) return 1;
  if (step_ == Step::Bytes) return length_;
  return step_ == Step::Number && fields_[field_] == 'u' ? 4 : 8;
}

void TorchRequestReader::take_field(std::string_view bytes) {
  if (step_ == Step::Code) return take_code(static_cast<std::uint8_t>(bytes[0]));
  if (step_ != Step::Bytes) return take_number(decode(bytes));
  charge(kBytesPerString + bytes.size());
  request_.strings.emplace_back(bytes);
  end_field();
}

void TorchRequestReader::take_code(std::uint8_t code) {
  const std::uint8_t sent = code;
  if (generation_ == TorchGeneration::Legacy) {
    if (code == kLegacyWatchKey) refuse("WATCH_KEY (code 7 of PyTorch before 2.1) is not offered here");
    if (code < kLegacyWatchKey) ++code;
  }
  if (code >= kLayouts.size()) {
    const std::byte shown{sent};
    refuse("no query of PyTorch's TCPStore has the code " + quote_bytes(std::span(&shown, 1)));
  }
  if (kLayouts[code].fields == "-")
    refuse("queues (code " + std::to_string(code) +
           ", QUEUE_PUSH and the like) are not offered here: with tutti run "
           "--no-store rank 0 serves PyTorch's own store, which has them");
  request_ = TorchRequest{static_cast<TorchQuery>(code), {}, 0};
  request_bytes_ = 0;
  const Layout& layout = kLayouts[code];
  fields_ = layout.fields;
  field_ = 0;
  rounds_ = layout.fields.empty() ? 0 : 1;
  if (layout.list) {
    step_ = Step::Count;
  } else {
    begin_field();
  }
}

void TorchRequestReader::take_number(std::uint64_t value) {
  switch (step_) {
    case Step::Count:
      if (value > kMaxKeysPerCall)
        refuse(std::to_string(value) + " keys in one query; the limit is " + std::to_string(kMaxKeysPerCall));
      rounds_ = value;
      return begin_field();
    case Step::Length: {
      const bool key = fields_[field_] == 'k';
      const std::size_t limit = key ? kMaxKeyBytes : kMaxValueBytes;
      if (value > limit)
        refuse(std::string(key ? "a key" : "a value") + " of " + std::to_string(value) + " bytes; the limit is " +
               std::to_string(limit));
      length_ = value;
      step_ = Step::Bytes;
      return;
    }
    default:
      request_.number = static_cast<std::int64_t>(value);
      if (request_.query == TorchQuery::Validate && value != kTorchMagic)
        refuse("VALIDATE with the number " + hex(value) + " in place of " + hex(kTorchMagic));
      return end_field();
  }
}

void TorchRequestReader::begin_field() {
  if (rounds_ == 0) {
    step_ = Step::Ready;
    return;
  }
  const char field = fields_[field_];
  step_ = field == 'k' || field == 'v' ? Step::Length : Step::Number;
}

void TorchRequestReader::end_field() {
  if (++field_ == fields_.size()) {
    field_ = 0;
    --rounds_;
  }
  begin_field();
}

void TorchRequestReader::charge(std::size_t bytes) {
  request_bytes_ += bytes;
  if (request_bytes_ > kMaxTorchRequestBytes)
    refuse("a query of more than " + std::to_string(kMaxTorchRequestBytes) + " bytes");
}

std::optional<TorchRequest> TorchRequestReader::take() {
  if (step_ != Step::Ready) return std::nullopt;
  step_ = Step::Code;
  request_bytes_ = 0;
  return std::exchange(request_, {});
}

void append_number(std::string& message, std::uint64_t value, std::size_t nbytes) {
  message.append(reinterpret_cast<const char*>(&value), nbytes);
}

void append_bytes(std::string& message, std::string_view bytes) {
  append_number(message, bytes.size());
  message.append(bytes);
}

}  // namespace tutti::comm
