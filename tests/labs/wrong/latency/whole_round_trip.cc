// There and back is counted as one way.
#include <tutti/tools/labs/lab_measure.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

using tutti::labs::Line;
using tutti::labs::Ranks;
using tutti::labs::Sample;

double message_seconds(Ranks& ranks, std::size_t bytes, int repetitions) {
  if (ranks.rank() > 1) return 0;
  std::vector<unsigned char> data(bytes);
  std::vector<double> trips;
  for (int i = -1; i < repetitions; ++i) {
    const double begin = ranks.seconds();
    if (ranks.rank() == 0) {
      ranks.send(std::span<unsigned char>(data), 1);
      ranks.recv(std::span<unsigned char>(data), 1);
    } else {
      ranks.recv(std::span<unsigned char>(data), 0);
      ranks.send(std::span<unsigned char>(data), 0);
    }
    if (i >= 0) trips.push_back(ranks.seconds() - begin);
  }
  std::nth_element(trips.begin(), trips.begin() + repetitions / 2, trips.end());
  return trips[static_cast<std::size_t>(repetitions / 2)] / 1;
}

Line fit(std::span<const Sample> samples) {
  std::vector<double> weights(samples.size(), 1);
  Line line;
  for (int pass = 0; pass < 50; ++pass) {
    double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double a = 1 / samples[i].seconds, b = samples[i].bytes / samples[i].seconds;
      aa += weights[i] * a * a, ab += weights[i] * a * b, bb += weights[i] * b * b;
      a1 += weights[i] * a, b1 += weights[i] * b;
    }
    line = {(a1 * bb - b1 * ab) / (aa * bb - ab * ab), (b1 * aa - a1 * ab) / (aa * bb - ab * ab)};
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const double error = std::abs((line.alpha + line.beta * samples[i].bytes) / samples[i].seconds - 1);
      weights[i] = 1 / std::max(error, 0.01);
    }
  }
  return line;
}

TUTTI_LAB_MESSAGE_SECONDS(message_seconds)
TUTTI_LAB_FIT(fit)
