// PendingWorks: the collectives that an exchange has begun, one for each bucket.
//
// Thread-safety: none, as its exchange.
#pragma once

#include <tutti/comm/process_group.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace tutti::trainer {

class PendingWorks {
 public:
  PendingWorks(comm::ProcessGroup& group, std::size_t buckets) : group_(group), works_(buckets) {}

  /// The last bucket's runs here and now: no computing is left to hide it behind, and handing it to another thread
  /// would cost more than a small model's whole exchange.
  void begin(std::size_t bucket, const comm::Collective& collective) {
    if (bucket + 1 == works_.size()) return group_.run(collective);
    add(bucket, group_.run_async(collective));
  }

  void add(std::size_t bucket, comm::Work work) { works_[bucket] = std::move(work); }

  /// Blocks until the bucket's operation is complete; nothing to wait for is no error.
  void wait(std::size_t bucket) {
    works_[bucket].wait();
    works_[bucket] = {};
  }

  /// Blocks until none runs any more, or for the group's deadline.
  void abandon() noexcept {
    for (comm::Work& work : works_) {
      try {
        (void)work.wait_for(group_.timeout());
      } catch (...) {  // how it ended is told by whoever gave the step up
      }
      work = {};
    }
  }

 private:
  comm::ProcessGroup& group_;
  std::vector<comm::Work> works_;
};

}  // namespace tutti::trainer
