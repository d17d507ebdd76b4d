// HashStore: a store inside one process, for tests, worlds of one, and ranks that run as threads.
//
// Thread-safety and deadlines: as Store. Only waits can time out; the other calls end at once whatever their deadline.
#pragma once

#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/store.h>

#include <condition_variable>
#include <mutex>

namespace tutti::comm {

class HashStore final : public Store {
 public:
  void set(std::string_view key, std::string_view value, Deadline deadline) override;
  std::string get(std::string_view key, Deadline deadline) override;
  void wait(std::span<const std::string> keys, Deadline deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline) override;
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                          Deadline deadline) override;
  bool check(std::span<const std::string> keys, Deadline deadline) override;
  bool delete_key(std::string_view key, Deadline deadline) override;
  std::int64_t num_keys(Deadline deadline) override;
  void append(std::string_view key, std::string_view value, Deadline deadline) override;
  std::vector<std::string> multi_get(std::span<const std::string> keys, Deadline deadline) override;
  void multi_set(std::span<const std::string> keys, std::span<const std::string> values, Deadline deadline) override;

 private:
  void wait_locked(std::unique_lock<std::mutex>& lock, std::span<const std::string> keys, Deadline deadline);

  std::mutex mutex_;
  std::condition_variable changed_;
  KeyMap map_;
};

}  // namespace tutti::comm
