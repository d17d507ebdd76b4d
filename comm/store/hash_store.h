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
 private:
  StoreResult do_call(const StoreRequest& request, Deadline deadline) override;

  std::mutex mutex_;
  std::condition_variable changed_;
  KeyMap map_;
};

}  // namespace tutti::comm
