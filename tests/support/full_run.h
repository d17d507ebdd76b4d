// Which worlds tests take: all that they have with -DTUTTI_TEST_FULL=ON (`tools/check --full`), else those at the
// borders, where algorithms change.
#pragma once

#include <vector>

namespace tutti::test {

#ifdef TUTTI_TEST_FULL
inline constexpr bool kFullRun = true;
#else
inline constexpr bool kFullRun = false;
#endif

/// 1 to `most`; else those up to 5, powers of two, their neighbours, and `most`.
inline std::vector<int> proven_worlds(int most) {
  const auto is_power = [](int p) { return (p & (p - 1)) == 0; };
  std::vector<int> result;
  for (int p = 1; p <= most; ++p)
    if (kFullRun || p <= 5 || p == most || is_power(p - 1) || is_power(p) || is_power(p + 1)) result.push_back(p);
  return result;
}

}  // namespace tutti::test
