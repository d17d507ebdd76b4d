// KeyMap: what a store's requests mean, for one thread and without waiting. HashStore, FileStore and the server share
// it, so that they cannot differ.
//
// Every function that throws leaves the map as it was. Thread-safety: none; the owner serialises.
#pragma once

#include <tutti/comm/store/store.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tutti::comm {

inline constexpr std::size_t kMaxKeyBytes = 8 * 1024;
inline constexpr std::size_t kMaxValueBytes = 64 * 1024 * 1024;
inline constexpr std::size_t kMaxKeysPerCall = 128 * 1024;
inline constexpr std::size_t kMissingKeysShown = 16;  // how many missing keys a Timeout text names

/// Those of some keys that have no value. Its names last as long as the keys they were looked for by.
struct MissingKeys {
  std::vector<std::string_view> shown;  // the first of them: as many as error texts name
  std::size_t count = 0;
};

class KeyMap {
 public:
  /// `max_bytes`: what keys and values may take together. A request that needs more throws InvalidArgument.
  explicit KeyMap(std::size_t max_bytes = std::numeric_limits<std::size_t>::max()) : max_bytes_(max_bytes) {}

  /// The value under `key`, or null. Valid until the map changes.
  const std::string* find(std::string_view key) const;

  template <typename Keys>
  bool has_all(const Keys& keys) const {
    return std::all_of(keys.begin(), keys.end(), [this](std::string_view key) { return find(key) != nullptr; });
  }
  template <typename Keys>
  MissingKeys missing(const Keys& keys) const {
    MissingKeys missing;
    for (const std::string_view key : keys)
      if (find(key) == nullptr && ++missing.count <= kMissingKeysShown) missing.shown.push_back(key);
    return missing;
  }

  /// Carries out a request that check_request() lets pass; the keys of a Get must be there. Throws InvalidArgument for
  /// an Add to a value that is no decimal int64, or whose sum does not fit one, and an Append over the limit of values.
  StoreResult apply(const StoreRequest& request);

  void set(std::string_view key, std::string_view value);
  bool erase(std::string_view key);
  std::size_t size() const { return values_.size(); }
  /// Keys and values together, with some for each entry.
  std::size_t bytes() const { return bytes_; }

  /// Every key with its value, in no order.
  void visit(const std::function<void(std::string_view key, std::string_view value)>& see) const {
    for (const auto& [key, value] : values_) see(key, value);
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::int64_t add(std::string_view key, std::int64_t delta);
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired);
  void append(std::string_view key, std::string_view value);
  void check_room(std::size_t before, std::size_t after) const;

  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, std::string, Hash, std::equal_to<>> values_;
};

/// Whether the operation ends only when all its keys are there; whether it may change values.
constexpr bool waits(StoreOp op) { return op == StoreOp::Get || op == StoreOp::Wait; }
constexpr bool changes(StoreOp op) { return !waits(op) && op != StoreOp::Check && op != StoreOp::NumKeys; }
/// Every how many strings of its requests one is a key.
constexpr std::size_t key_stride(StoreOp op) {
  return op == StoreOp::CompareSet ? 3 : op == StoreOp::Set || op == StoreOp::Append ? 2 : 1;
}

/// Throws Protocol if the operation is none or its strings are not those it takes, InvalidArgument naming the key and
/// the limit if a key, a value or their number is over it.
void check_request(const StoreRequest& request);

/// `multi_get of "a", "b"`: a request as error texts show it.
std::string request_text(const StoreRequest& request);

/// Throws InvalidArgument in a process forked from `owner`, whose `store` ("TcpStore") this is.
void refuse_forked_child(int owner, const std::string& store);

/// "timed out after 1.500 s waiting for 2 of 3 keys: "a", "b"".
std::string missing_keys_text(const MissingKeys& missing, std::size_t wanted_count, double seconds);

}  // namespace tutti::comm
