// The model of where a run's time goes, fitted to the measured layouts:
//
//   t = fixed + step * work + round * rounds
//     work   = steps of a rank * the slowdown of a step: 1 on one core of its own, 1 / threads on several,
//              ranks / cores where ranks must share cores
//     rounds = steps of a rank * ceil(lg ranks): an all_reduce needs so many messages one behind the other at least
//
// `fixed` is what no rank makes shorter: the start, reading the data, the end. Coefficients are not negative; they
// minimise the sum of squared relative errors of the medians, with weights that let single layouts be outliers
// (Huber's, by iteration: Huber, Robust Statistics, 1981, section 7).
//
// Pure functions.
#pragma once

#include <tutti/tools/labs/scaling/results.h>

#include <vector>

namespace tutti::labs::scaling {

struct Features {
  double work = 0;
  double rounds = 0;
};

struct Model {
  double fixed = 0;        // seconds
  double step = 0;         // seconds of one step on a core of its own
  double round = 0;        // seconds of one round of messages in a step
  double worst_error = 0;  // of a layout's median, relative

  double seconds(const Features& features) const { return fixed + step * features.work + round * features.rounds; }
};

/// Of a layout; `steps` are one rank's in the whole run.
Features features_of(const Layout& layout, double steps, int cores);

/// Needs one row; three or more with different features for all coefficients to mean something.
Model fitted(const Results& results);

/// Steps of a rank of `ranks`, counted from what was measured with other numbers: the samples of all ranks stay.
double steps_with(const Results& results, int ranks);

}  // namespace tutti::labs::scaling
