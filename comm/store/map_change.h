// MapChange: a change of a store's values, and the records that say how, for who keeps them in a file.
// Internal to comm/store. Thread-safety: none; the map is the caller's.
#pragma once

#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store_file_format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::comm {

class MapChange {
 public:
  explicit MapChange(KeyMap& map) : map_(map) {}

  const KeyMap& map() const { return map_; }
  const std::string& records() const { return records_; }

  /// As KeyMap's, which throw before anything has changed.
  void set(std::string_view key, std::string_view value) {
    map_.set(key, value);
    append_store_record(records_, {StoreRecordKind::Set, key, value});
  }
  std::int64_t add(std::string_view key, std::int64_t delta) {
    const std::int64_t value = map_.add(key, delta);
    append_store_record(records_, {StoreRecordKind::Set, key, std::to_string(value)});
    return value;
  }
  void append(std::string_view key, std::string_view value) {
    map_.append(key, value);
    append_store_record(records_, {StoreRecordKind::Append, key, value});
  }
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired) {
    const std::string* present = map_.find(key);
    const bool matches = (present == nullptr ? std::string_view() : std::string_view(*present)) == expected;
    std::string value = map_.compare_set(key, expected, desired);
    if (matches) append_store_record(records_, {StoreRecordKind::Set, key, desired});
    return value;
  }
  bool erase(std::string_view key) {
    const bool existed = map_.erase(key);
    if (existed) append_store_record(records_, {StoreRecordKind::Delete, key, {}});
    return existed;
  }

 private:
  KeyMap& map_;
  std::string records_;
};

}  // namespace tutti::comm
