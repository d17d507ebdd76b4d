// Majority: what most of many noisy samples say. It changes its mind when one kind is `kAhead` ahead of the other, and
// says no at first. Thread-safety: one thread at a time.
#pragma once

#include <algorithm>

namespace tutti::comm {

template <int kAhead>
class Majority {
 public:
  void sample(bool yes) {
    ahead_ = std::clamp(ahead_ + (yes ? 1 : -1), 0, kAhead);
    if (ahead_ == 0) says_yes_ = false;
    if (ahead_ == kAhead) says_yes_ = true;
  }
  bool says_yes() const { return says_yes_; }

 private:
  int ahead_ = 0;  // samples that said yes, less those that said no; 0 .. kAhead
  bool says_yes_ = false;
};

}  // namespace tutti::comm
