#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/wire/printable.h>

#include <charconv>
#include <optional>

namespace tutti::comm {
namespace {

constexpr std::size_t kShownKeyBytes = 120;

std::string quoted(std::string_view text) { return '"' + printable(text, kShownKeyBytes) + '"'; }

std::int64_t parse_number(std::string_view key, std::string_view text) {
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorCode::InvalidArgument, "add to key " + quoted(key) + ": its value " + quoted(text) +
                                                " is no decimal 64-bit number; it was left as it was");
  }
  return number;
}

void check_key(std::string_view key) {
  if (key.size() <= kMaxKeyBytes) return;
  throw Error(ErrorCode::InvalidArgument, "store key " + quoted(key) + " has " + std::to_string(key.size()) +
                                              " bytes; the limit is " + std::to_string(kMaxKeyBytes));
}

void check_value(std::string_view key, std::string_view value) {
  if (value.size() <= kMaxValueBytes) return;
  throw Error(ErrorCode::InvalidArgument, "the value for store key " + quoted(key) + " has " +
                                              std::to_string(value.size()) + " bytes; the limit is " +
                                              std::to_string(kMaxValueBytes));
}

/// How many strings a request has; nothing: as many as there are keys, or pairs of key and value.
std::optional<std::size_t> string_count(StoreOp op) {
  switch (op) {
    case StoreOp::Set:
    case StoreOp::Get:
    case StoreOp::Wait:
    case StoreOp::Check:
      return std::nullopt;
    case StoreOp::NumKeys:
    case StoreOp::Goodbye:
      return 0;
    case StoreOp::Add:
    case StoreOp::Delete:
      return 1;
    case StoreOp::Append:
      return 2;
    case StoreOp::CompareSet:
      return 3;
  }
  throw Error(ErrorCode::Protocol, "there is no store operation " + std::to_string(static_cast<int>(op)));
}

const char* verb(const StoreRequest& request) {
  const bool several = request.body.strings.size() > key_stride(request.op);
  switch (request.op) {
    case StoreOp::Set:
      return several ? "multi_set of" : "set";
    case StoreOp::Get:
      return several ? "multi_get of" : "get";
    case StoreOp::Wait:
      return "wait for";
    case StoreOp::Add:
      return "add to";
    case StoreOp::CompareSet:
      return "compare_set of";
    case StoreOp::Check:
      return "check of";
    case StoreOp::Delete:
      return "delete of";
    case StoreOp::NumKeys:
      return "num_keys";
    case StoreOp::Append:
      return "append to";
    case StoreOp::Goodbye:
      return "goodbye";
  }
  return "?";
}

}  // namespace

void check_request(const StoreRequest& request) {
  const auto& strings = request.body.strings;
  const std::size_t stride = key_stride(request.op);
  if (const auto needed = string_count(request.op); needed && strings.size() != *needed)
    throw Error(ErrorCode::Protocol,
                "the request has " + std::to_string(strings.size()) + " strings instead of " + std::to_string(*needed));
  if (strings.size() % stride != 0) throw Error(ErrorCode::Protocol, "a set request's last key has no value");
  if (strings.size() / stride > kMaxKeysPerCall)
    throw Error(ErrorCode::InvalidArgument, std::to_string(strings.size() / stride) +
                                                " keys in one store call; the limit is " +
                                                std::to_string(kMaxKeysPerCall) + ": split the call");
  for (std::size_t i = 0; i < strings.size(); i += stride) {
    check_key(strings[i]);
    if (stride > 1) check_value(strings[i], strings[i + stride - 1]);
  }
}

void check_same_length(std::size_t keys, std::size_t values) {
  if (keys == values) return;
  throw Error(ErrorCode::InvalidArgument, "multi_set got " + std::to_string(keys) + " keys but " +
                                              std::to_string(values) + " values; nothing was set");
}

std::string quote_keys(std::span<const std::string_view> keys, std::size_t total) {
  std::string text;
  for (const std::string_view key : keys) text += (text.empty() ? "" : ", ") + quoted(key);
  if (total > keys.size()) text += " and " + std::to_string(total - keys.size()) + " more";
  return text;
}

std::string request_text(const StoreRequest& request) {
  const auto& strings = request.body.strings;
  std::vector<std::string_view> shown;
  const std::size_t stride = key_stride(request.op), count = strings.size() / stride;
  for (std::size_t i = 0; i < std::min(count, kMissingKeysShown); ++i) shown.push_back(strings[i * stride]);
  return verb(request) + std::string(count == 0 ? "" : " ") + quote_keys(shown, count);
}

std::string missing_keys_text(const MissingKeys& missing, std::size_t wanted_count, double seconds) {
  const std::string what =
      wanted_count == 1 ? "key " : std::to_string(missing.count) + " of " + std::to_string(wanted_count) + " keys: ";
  return format("timed out after %.3f s waiting for ", seconds) + what + quote_keys(missing.shown, missing.count);
}

const std::string* KeyMap::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

StoreResult KeyMap::apply(const StoreRequest& request) {
  const auto& strings = request.body.strings;
  StoreResult result;
  switch (request.op) {
    case StoreOp::Set:
      for (std::size_t i = 0; i < strings.size(); i += 2) set(strings[i], strings[i + 1]);
      break;
    case StoreOp::Get:
      for (const std::string_view key : strings) result.strings.push_back(*find(key));
      break;
    case StoreOp::Add:
      result.number = add(strings[0], request.body.number);
      break;
    case StoreOp::CompareSet:
      result.strings.push_back(compare_set(strings[0], strings[1], strings[2]));
      break;
    case StoreOp::Check:
      result.number = has_all(strings);
      break;
    case StoreOp::Delete:
      result.number = erase(strings[0]);
      break;
    case StoreOp::NumKeys:
      result.number = static_cast<std::int64_t>(size());
      break;
    case StoreOp::Append:
      append(strings[0], strings[1]);
      break;
    case StoreOp::Wait:
    case StoreOp::Goodbye:
      break;
  }
  return result;
}

void KeyMap::set(std::string_view key, std::string_view value) {
  check_key(key);
  check_value(key, value);
  const auto found = values_.find(key);
  if (found == values_.end()) {
    values_.emplace(key, value);
  } else {
    found->second.assign(value);
  }
}

std::int64_t KeyMap::add(std::string_view key, std::int64_t delta) {
  const std::string* present = find(key);
  const std::int64_t before = present == nullptr ? 0 : parse_number(key, *present);
  std::int64_t after = 0;
  if (__builtin_add_overflow(before, delta, &after)) {
    throw Error(ErrorCode::InvalidArgument, "add to key " + quoted(key) + ": " + std::to_string(before) + " + " +
                                                std::to_string(delta) +
                                                " does not fit 64 bits; the value was left as it was");
  }
  set(key, std::to_string(after));
  return after;
}

std::string KeyMap::compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
  const std::string* present = find(key);
  const std::string_view before = present == nullptr ? std::string_view() : std::string_view(*present);
  if (before != expected) return std::string(before);
  set(key, desired);
  return std::string(desired);
}

void KeyMap::append(std::string_view key, std::string_view value) {
  check_key(key);
  const auto found = values_.find(key);
  if (found == values_.end()) return set(key, value);
  if (found->second.size() + value.size() > kMaxValueBytes) {
    throw Error(ErrorCode::InvalidArgument, "append of " + std::to_string(value.size()) + " bytes to key " +
                                                quoted(key) + ", which has " + std::to_string(found->second.size()) +
                                                ", goes over the limit of " + std::to_string(kMaxValueBytes));
  }
  found->second.append(value);
}

bool KeyMap::erase(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  values_.erase(found);
  return true;
}

}  // namespace tutti::comm
