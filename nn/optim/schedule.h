// Learning-rate schedules: pure functions of the optimizer step (0, 1, ...) and nothing else, so that a resumed run
// needs only the number of its next step. Formulas: PyTorch's closed forms
// (https://pytorch.org/docs/stable/optim.html). Thread-safety: a Schedule may be called from any thread. All factories
// throw std::invalid_argument naming the argument.
#pragma once

#include <cstdint>
#include <functional>

namespace tutti::nn {

/// step -> learning rate.
using Schedule = std::function<double(std::int64_t step)>;

Schedule constant_rate(double rate);

/// rate * factor^floor(step / interval), torch's StepLR.
Schedule step_decay(double rate, std::int64_t interval, double factor = 0.1);

/// From `rate` to `lowest` along half a cosine over `total` steps, torch's CosineAnnealingLR; `lowest` from there on.
/// Source: Loshchilov & Hutter, "SGDR", https://arxiv.org/abs/1608.03983
Schedule cosine_annealing(double rate, std::int64_t total, double lowest = 0);

struct OneCycleOptions {
  double highest = 0.1;
  std::int64_t total = 2;     // steps in all, at least 2
  double rise = 0.3;          // the part of them that climbs
  double first_divisor = 25;  // begins at highest / first_divisor
  double last_divisor = 1e4;  // ends at highest / first_divisor / last_divisor
};
/// Up to `highest` and down again, both along a cosine: torch's OneCycleLR with cycle_momentum=False. After `total`
/// steps (where torch throws) the last rate stays.
/// Source: Smith & Topin, "Super-Convergence", https://arxiv.org/abs/1708.07120
Schedule one_cycle(const OneCycleOptions& options);

/// `schedule`, multiplied in the first `steps` steps by 1 / steps, 2 / steps, ..., 1: a linear warm-up.
/// Source: Goyal et al., "Accurate, Large Minibatch SGD", https://arxiv.org/abs/1706.02677
Schedule with_warm_up(Schedule schedule, std::int64_t steps);

}  // namespace tutti::nn
