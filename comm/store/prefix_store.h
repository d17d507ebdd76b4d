// PrefixStore: the same store with "<prefix>/" before every key, so that groups sharing a store cannot meet each
// other's keys.
//
// num_keys() counts the keys of the whole store below, since a store cannot list its keys. Thread-safety, deadlines and
// error texts (which show full keys) are those of the store below, which is shared.
#pragma once

#include <tutti/comm/store/store.h>

#include <memory>

namespace tutti::comm {

class PrefixStore final : public Store {
 public:
  /// Throws InvalidArgument if `store` is null.
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);

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
  std::string joined(std::string_view key) const;
  std::vector<std::string> joined(std::span<const std::string> keys) const;

  std::string prefix_;  // with the slash
  std::shared_ptr<Store> store_;
};

}  // namespace tutti::comm
