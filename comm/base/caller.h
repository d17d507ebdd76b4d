// Caller: whom an operation is done for, as those see it who do it.
//
// Thread-safety: used by the thread that does the operation.
#pragma once

#include <tutti/comm/base/deadline.h>

namespace tutti::comm {

class Caller {
 public:
  /// Until when the operation may wait. The time counts from the first question: an operation that never waits need not
  /// look at the clock.
  virtual Deadline deadline() = 0;

  /// The others know of the operation: what had to be done before this, and may be done now, no longer holds them up.
  virtual void is_announced() {}

 protected:
  ~Caller() = default;
};

}  // namespace tutti::comm
