#include <tutti/comm/base/error.h>
#include <tutti/comm/store/hash_store.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/prefix_store.h>
#include <tutti/comm/store/store.h>

#include <utility>

namespace tutti::comm {
namespace {

StoreBody body_of(std::span<const std::string> keys) { return {0, {keys.begin(), keys.end()}}; }

}  // namespace

StoreResult Store::call(const StoreRequest& request, Deadline deadline) {
  check_request(request);
  return do_call(request, deadline);
}

void Store::set(std::string_view key, std::string_view value, Deadline deadline) {
  call({StoreOp::Set, {0, {key, value}}}, deadline);
}

std::string Store::get(std::string_view key, Deadline deadline) {
  return std::move(call({StoreOp::Get, {0, {key}}}, deadline).strings[0]);
}

void Store::wait(std::span<const std::string> keys, Deadline deadline) {
  call({StoreOp::Wait, body_of(keys)}, deadline);
}

std::int64_t Store::add(std::string_view key, std::int64_t delta, Deadline deadline) {
  return call({StoreOp::Add, {delta, {key}}}, deadline).number;
}

std::string Store::compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                               Deadline deadline) {
  return std::move(call({StoreOp::CompareSet, {0, {key, expected, desired}}}, deadline).strings[0]);
}

bool Store::check(std::span<const std::string> keys, Deadline deadline) {
  return call({StoreOp::Check, body_of(keys)}, deadline).number != 0;
}

bool Store::delete_key(std::string_view key, Deadline deadline) {
  return call({StoreOp::Delete, {0, {key}}}, deadline).number != 0;
}

std::int64_t Store::num_keys(Deadline deadline) { return call({StoreOp::NumKeys, {}}, deadline).number; }

void Store::append(std::string_view key, std::string_view value, Deadline deadline) {
  call({StoreOp::Append, {0, {key, value}}}, deadline);
}

std::vector<std::string> Store::multi_get(std::span<const std::string> keys, Deadline deadline) {
  return call({StoreOp::Get, body_of(keys)}, deadline).strings;
}

void Store::multi_set(std::span<const std::string> keys, std::span<const std::string> values, Deadline deadline) {
  if (keys.size() != values.size())
    refuse("multi_set got ", keys.size(), " keys but ", values.size(), " values; nothing was set");
  StoreRequest request{StoreOp::Set, {}};
  request.body.strings.reserve(2 * keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    request.body.strings.push_back(keys[i]);
    request.body.strings.push_back(values[i]);
  }
  call(request, deadline);
}

// The stores that need neither a server nor a file.

StoreResult HashStore::do_call(const StoreRequest& request, Deadline deadline) {
  const auto& keys = request.body.strings;
  const auto start = Deadline::Clock::now();
  std::unique_lock lock(mutex_);
  if (waits(request.op) && !changed_.wait_until(lock, deadline.time_point(), [&] { return map_.has_all(keys); })) {
    throw Error(ErrorCode::Timeout, missing_keys_text(map_.missing(keys), keys.size(), elapsed_seconds(start)),
                " in this process's store");
  }
  StoreResult result = map_.apply(request);
  if (changes(request.op)) changed_.notify_all();
  return result;
}

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix) + "/"), store_(std::move(store)) {
  if (store_ == nullptr) {
    refuse("PrefixStore \"", prefix_, "\" was given no store to put its keys into");
  }
}

StoreResult PrefixStore::do_call(const StoreRequest& request, Deadline deadline) {
  StoreRequest joined = request;
  std::vector<std::string> keys;
  keys.reserve(request.body.strings.size());  // the views below stay valid
  for (std::size_t i = 0; i < request.body.strings.size(); i += key_stride(request.op)) {
    keys.push_back(prefix_ + std::string(request.body.strings[i]));
    joined.body.strings[i] = keys.back();
  }
  return store_->call(joined, deadline);
}

}  // namespace tutti::comm
