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

 private:
  StoreResult do_call(const StoreRequest& request, Deadline deadline) override;

  std::string prefix_;  // with the slash
  std::shared_ptr<Store> store_;
};

}  // namespace tutti::comm
