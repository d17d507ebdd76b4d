// Caller: callbacks that a running operation makes to the call that started it.
//
// Thread-safety: used by the thread that runs the operation.
#pragma once

#include <tutti/comm/base/deadline.h>

namespace tutti::comm {

class Caller {
 public:
  /// Until when the operation may wait. The time counts from the first call: an operation that never waits need not
  /// read the clock.
  virtual Deadline deadline() = 0;

  /// The peers have this rank's announcement: whatever had to precede it, and may be done now, no longer delays them.
  virtual void is_announced() {}

 protected:
  ~Caller() = default;
};

}  // namespace tutti::comm
