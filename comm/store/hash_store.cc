#include <tutti/comm/base/error.h>
#include <tutti/comm/store/hash_store.h>

namespace tutti::comm {

void HashStore::wait_locked(std::unique_lock<std::mutex>& lock, std::span<const std::string> keys, Deadline deadline) {
  const auto start = Deadline::Clock::now();
  if (changed_.wait_until(lock, deadline.time_point(), [&] { return map_.has_all(keys); })) return;
  const std::chrono::duration<double> waited = Deadline::Clock::now() - start;
  throw Error(ErrorCode::Timeout,
              missing_keys_text(map_.missing(keys), keys.size(), waited.count()) + " in this process's store");
}

void HashStore::set(std::string_view key, std::string_view value, Deadline) {
  const std::lock_guard lock(mutex_);
  map_.set(key, value);
  changed_.notify_all();
}

std::string HashStore::get(std::string_view key, Deadline deadline) {
  check_key(key);
  const std::string name(key);
  std::unique_lock lock(mutex_);
  wait_locked(lock, std::span(&name, 1), deadline);
  return *map_.find(name);
}

void HashStore::wait(std::span<const std::string> keys, Deadline deadline) {
  check_key_count(keys.size());
  std::unique_lock lock(mutex_);
  wait_locked(lock, keys, deadline);
}

std::int64_t HashStore::add(std::string_view key, std::int64_t delta, Deadline) {
  const std::lock_guard lock(mutex_);
  const std::int64_t value = map_.add(key, delta);
  changed_.notify_all();
  return value;
}

std::string HashStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                                   Deadline) {
  const std::lock_guard lock(mutex_);
  std::string value = map_.compare_set(key, expected, desired);
  changed_.notify_all();
  return value;
}

bool HashStore::check(std::span<const std::string> keys, Deadline) {
  check_key_count(keys.size());
  const std::lock_guard lock(mutex_);
  return map_.has_all(keys);
}

bool HashStore::delete_key(std::string_view key, Deadline) {
  const std::lock_guard lock(mutex_);
  return map_.erase(key);
}

std::int64_t HashStore::num_keys(Deadline) {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(map_.size());
}

void HashStore::append(std::string_view key, std::string_view value, Deadline) {
  const std::lock_guard lock(mutex_);
  map_.append(key, value);
  changed_.notify_all();
}

std::vector<std::string> HashStore::multi_get(std::span<const std::string> keys, Deadline deadline) {
  check_key_count(keys.size());
  std::unique_lock lock(mutex_);
  wait_locked(lock, keys, deadline);
  std::vector<std::string> values;
  values.reserve(keys.size());
  for (const std::string& key : keys) values.push_back(*map_.find(key));
  return values;
}

void HashStore::multi_set(std::span<const std::string> keys, std::span<const std::string> values, Deadline) {
  check_same_length(keys.size(), values.size());
  check_key_count(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    check_key(keys[i]);
    check_value(keys[i], values[i]);
  }
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < keys.size(); ++i) map_.set(keys[i], values[i]);
  changed_.notify_all();
}

}  // namespace tutti::comm
