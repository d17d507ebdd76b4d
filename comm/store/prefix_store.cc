#include <tutti/comm/base/error.h>
#include <tutti/comm/store/prefix_store.h>

#include <utility>

namespace tutti::comm {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix) + "/"), store_(std::move(store)) {
  if (store_ == nullptr) {
    throw Error(ErrorCode::InvalidArgument, "PrefixStore \"" + prefix_ + "\" was given no store to put its keys into");
  }
}

std::string PrefixStore::joined(std::string_view key) const { return prefix_ + std::string(key); }

std::vector<std::string> PrefixStore::joined(std::span<const std::string> keys) const {
  std::vector<std::string> result;
  result.reserve(keys.size());
  for (const std::string& key : keys) result.push_back(prefix_ + key);
  return result;
}

void PrefixStore::set(std::string_view key, std::string_view value, Deadline deadline) {
  store_->set(joined(key), value, deadline);
}

std::string PrefixStore::get(std::string_view key, Deadline deadline) { return store_->get(joined(key), deadline); }

void PrefixStore::wait(std::span<const std::string> keys, Deadline deadline) { store_->wait(joined(keys), deadline); }

std::int64_t PrefixStore::add(std::string_view key, std::int64_t delta, Deadline deadline) {
  return store_->add(joined(key), delta, deadline);
}

std::string PrefixStore::compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                                     Deadline deadline) {
  return store_->compare_set(joined(key), expected, desired, deadline);
}

bool PrefixStore::check(std::span<const std::string> keys, Deadline deadline) {
  return store_->check(joined(keys), deadline);
}

bool PrefixStore::delete_key(std::string_view key, Deadline deadline) {
  return store_->delete_key(joined(key), deadline);
}

std::int64_t PrefixStore::num_keys(Deadline deadline) { return store_->num_keys(deadline); }

void PrefixStore::append(std::string_view key, std::string_view value, Deadline deadline) {
  store_->append(joined(key), value, deadline);
}

std::vector<std::string> PrefixStore::multi_get(std::span<const std::string> keys, Deadline deadline) {
  return store_->multi_get(joined(keys), deadline);
}

void PrefixStore::multi_set(std::span<const std::string> keys, std::span<const std::string> values, Deadline deadline) {
  store_->multi_set(joined(keys), values, deadline);
}

}  // namespace tutti::comm
