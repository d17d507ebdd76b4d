#include <tutti/comm/base/error.h>
#include <tutti/comm/store/hash_store.h>

namespace tutti::comm {

StoreResult HashStore::do_call(const StoreRequest& request, Deadline deadline) {
  const auto& keys = request.body.strings;
  const auto start = Deadline::Clock::now();
  std::unique_lock lock(mutex_);
  if (waits(request.op) && !changed_.wait_until(lock, deadline.time_point(), [&] { return map_.has_all(keys); })) {
    const std::chrono::duration<double> waited = Deadline::Clock::now() - start;
    throw Error(ErrorCode::Timeout,
                missing_keys_text(map_.missing(keys), keys.size(), waited.count()) + " in this process's store");
  }
  StoreResult result = map_.apply(request);
  if (changes(request.op)) changed_.notify_all();
  return result;
}

}  // namespace tutti::comm
