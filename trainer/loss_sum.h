// LossSum: the loss of some samples. Sums can be added over steps and ranks and do not depend on how batches were cut.
#pragma once

#include <cstdint>

namespace tutti::trainer {

struct LossSum {
  double loss = 0;
  std::int64_t samples = 0;
};

}  // namespace tutti::trainer
