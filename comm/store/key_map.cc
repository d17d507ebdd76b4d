#include <tutti/comm/base/error.h>
#include <tutti/comm/base/format.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/wire/printable.h>
#include <unistd.h>

#include <array>
#include <optional>

namespace tutti::comm {
namespace {

constexpr std::size_t kShownKeyBytes = 120;

std::string quoted(std::string_view text) { return '"' + printable(text, kShownKeyBytes) + '"'; }

std::int64_t number_of(std::string_view key, std::string_view text) {
  if (const auto number = decimal<std::int64_t>(text)) return *number;
  refuse("add to key ", quoted(key), ": its value ", quoted(text),
         " is no decimal 64-bit number; it was left as it was");
}

void check_key(std::string_view key) {
  if (key.size() <= kMaxKeyBytes) return;
  refuse("store key ", quoted(key), " has ", key.size(), " bytes; the limit is ", kMaxKeyBytes);
}

void check_value(std::string_view key, std::string_view value) {
  if (value.size() <= kMaxValueBytes) return;
  refuse("the value for store key ", quoted(key), " has ", value.size(), " bytes; the limit is ", kMaxValueBytes);
}

/// An operation in error texts, and how many strings its requests have: nothing: as many as there are keys, or pairs of
/// key and value.
struct Form {
  const char* verb;
  std::optional<std::size_t> strings = std::nullopt;
  const char* verb_of_several = verb;
};

/// In the order of StoreOp, from Set.
constexpr std::array<Form, 11> kForms{{{"set", std::nullopt, "multi_set of"},
                                       {"get", std::nullopt, "multi_get of"},
                                       {"wait for"},
                                       {"add to", 1},
                                       {"compare_set of", 3},
                                       {"check of"},
                                       {"delete of", 1},
                                       {"num_keys", 0},
                                       {"append to", 2},
                                       {"goodbye", 0},
                                       {"end of waits", 0}}};

const Form& form_of(StoreOp op) {
  const auto index = static_cast<std::size_t>(op) - static_cast<std::size_t>(StoreOp::Set);
  if (index >= kForms.size()) throw Error(ErrorCode::Protocol, "there is no store operation ", static_cast<int>(op));
  return kForms[index];
}

std::size_t entry_bytes(std::string_view key, std::string_view value) {
  constexpr std::size_t kEntryBytes = 64;  // what an entry costs besides its bytes
  return key.size() + value.size() + kEntryBytes;
}

/// `"a", "b" and 3 more`.
std::string quote_keys(const std::vector<std::string_view>& keys, std::size_t total) {
  std::string text = listed(keys, ", ", quoted);
  if (total > keys.size()) text += " and " + std::to_string(total - keys.size()) + " more";
  return text;
}

}  // namespace

void check_request(const StoreRequest& request) {
  const auto& strings = request.body.strings;
  const std::size_t stride = key_stride(request.op);
  if (const auto needed = form_of(request.op).strings; needed && strings.size() != *needed)
    throw Error(ErrorCode::Protocol, "the request has ", strings.size(), " strings instead of ", *needed);
  if (strings.size() % stride != 0) throw Error(ErrorCode::Protocol, "a set request's last key has no value");
  if (strings.size() / stride > kMaxKeysPerCall)
    refuse(strings.size() / stride, " keys in one store call; the limit is ", kMaxKeysPerCall, ": split the call");
  for (std::size_t i = 0; i < strings.size(); i += stride) {
    check_key(strings[i]);
    if (stride > 1) check_value(strings[i], strings[i + stride - 1]);
  }
}

std::string request_text(const StoreRequest& request) {
  const auto& strings = request.body.strings;
  std::vector<std::string_view> shown;
  const std::size_t stride = key_stride(request.op), count = strings.size() / stride;
  for (std::size_t i = 0; i < std::min(count, kMissingKeysShown); ++i) shown.push_back(strings[i * stride]);
  const Form& form = form_of(request.op);
  return std::string(count > 1 ? form.verb_of_several : form.verb) + (count == 0 ? "" : " ") + quote_keys(shown, count);
}

void refuse_forked_child(int owner, const std::string& store) {
  if (::getpid() == owner) return;
  refuse("this ", store, " belongs to process ", owner, "; process ", ::getpid(),
         " was forked from it and must make its own");
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
    case StoreOp::EndWaits:
      break;
  }
  return result;
}

void KeyMap::check_room(std::size_t before, std::size_t after) const {
  if (after <= before || bytes_ + (after - before) <= max_bytes_) return;
  refuse("the store holds ", bytes_, " bytes, and may hold ", max_bytes_, " at most");
}

void KeyMap::set(std::string_view key, std::string_view value) {
  const auto found = values_.find(key);
  const std::size_t before = found == values_.end() ? 0 : entry_bytes(key, found->second);
  const std::size_t after = entry_bytes(key, value);
  check_room(before, after);
  if (found == values_.end()) {
    values_.emplace(key, value);
  } else {
    found->second.assign(value);
  }
  bytes_ = bytes_ - before + after;
}

std::int64_t KeyMap::add(std::string_view key, std::int64_t delta) {
  const std::string* present = find(key);
  const std::int64_t before = present == nullptr ? 0 : number_of(key, *present);
  std::int64_t after = 0;
  if (__builtin_add_overflow(before, delta, &after)) {
    refuse("add to key ", quoted(key), ": ", before, " + ", delta,
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
  const auto found = values_.find(key);
  if (found == values_.end()) return set(key, value);
  if (found->second.size() + value.size() > kMaxValueBytes) {
    refuse("append of ", value.size(), " bytes to key ", quoted(key), ", which has ", found->second.size(),
           ", goes over the limit of ", kMaxValueBytes);
  }
  check_room(0, value.size());
  found->second.append(value);
  bytes_ += value.size();
}

bool KeyMap::erase(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= entry_bytes(key, found->second);
  values_.erase(found);
  return true;
}

}  // namespace tutti::comm
