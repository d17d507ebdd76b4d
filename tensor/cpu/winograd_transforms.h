// The three transforms of conv_winograd.h, on vectors of channels. Private to tensor/cpu.
//
// Along one direction four results of a filter of three weights are the middle of a product of polynomials. It is
// computed from its values at five points and at infinity: 0, +-5/8 and +-3/2. Those of the textbook, 0, +-1 and +-2,
// cost as much and lose twice as many bits; powers and sums of these are exact in float32. Points that come in pairs
// share their even and odd parts.
// How points matter: Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution for Deep
// Neural Networks", 2020, https://arxiv.org/abs/1803.10986
#pragma once

#include <tutti/tensor/cpu/simd.h>

namespace tutti::tensor::cpu {

inline constexpr int kWinogradKernel = 3;
inline constexpr int kWinogradStep = 4;                                    // side of the square that is computed
inline constexpr int kWinogradSide = kWinogradStep + kWinogradKernel - 1;  // and of the one that is read

namespace detail {

inline constexpr double kNear = 5. / 8;
inline constexpr double kFar = 3. / 2;
inline constexpr double kNear2 = kNear * kNear;
inline constexpr double kFar2 = kFar * kFar;

}  // namespace detail

/// Pixels that are read: the transpose of the interpolation.
struct WinogradInput {
  static constexpr int kFrom = kWinogradSide;
  static constexpr int kTo = kWinogradSide;

  template <typename T, typename Vec>
  [[gnu::always_inline]] static void line(const Vec (&d)[kFrom], Vec (&to)[kTo]) {
    constexpr T kNear = detail::kNear, kFar = detail::kFar, kNear2 = detail::kNear2, kFar2 = detail::kFar2;
    to[0] = d[4] - (kNear2 + kFar2) * d[2] + kNear2 * kFar2 * d[0];
    const Vec near_even = d[4] - kFar2 * d[2], near_odd = d[3] - kFar2 * d[1];
    to[1] = near_even + kNear * near_odd;
    to[2] = near_even - kNear * near_odd;
    const Vec far_even = d[4] - kNear2 * d[2], far_odd = d[3] - kNear2 * d[1];
    to[3] = far_even + kFar * far_odd;
    to[4] = far_even - kFar * far_odd;
    to[5] = d[5] - (kNear2 + kFar2) * d[3] + kNear2 * kFar2 * d[1];
  }
};

/// Weights: their polynomial's values at the points, each divided by the product of the differences to the others.
struct WinogradWeight {
  static constexpr int kFrom = kWinogradKernel;
  static constexpr int kTo = kWinogradSide;

  template <typename T, typename Vec>
  [[gnu::always_inline]] static void line(const Vec (&g)[kFrom], Vec (&to)[kTo]) {
    using detail::kFar, detail::kFar2, detail::kNear, detail::kNear2;
    constexpr double kNearPart = 1 / (2 * kNear2 * (kNear2 - kFar2));
    constexpr double kFarPart = 1 / (2 * kFar2 * (kFar2 - kNear2));
    to[0] = T{1 / (kNear2 * kFar2)} * g[0];
    const Vec near_even = T{kNearPart} * g[0] + T{kNearPart * kNear2} * g[2], near_odd = T{kNearPart * kNear} * g[1];
    to[1] = near_even + near_odd;
    to[2] = near_even - near_odd;
    const Vec far_even = T{kFarPart} * g[0] + T{kFarPart * kFar2} * g[2], far_odd = T{kFarPart * kFar} * g[1];
    to[3] = far_even + far_odd;
    to[4] = far_even - far_odd;
    to[5] = g[2];
  }
};

/// Sums of products: the results are their sums, weighted by powers of the points.
struct WinogradOutput {
  static constexpr int kFrom = kWinogradSide;
  static constexpr int kTo = kWinogradStep;

  template <typename T, typename Vec>
  [[gnu::always_inline]] static void line(const Vec (&m)[kFrom], Vec (&to)[kTo]) {
    constexpr T kNear = detail::kNear, kFar = detail::kFar, kNear2 = detail::kNear2, kFar2 = detail::kFar2;
    const Vec near_even = m[1] + m[2], near_odd = m[1] - m[2];
    const Vec far_even = m[3] + m[4], far_odd = m[3] - m[4];
    to[0] = m[0] + near_even + far_even;
    to[1] = kNear * near_odd + kFar * far_odd;
    to[2] = kNear2 * near_even + kFar2 * far_even;
    to[3] = m[5] + kNear2 * kNear * near_odd + kFar2 * kFar * far_odd;
  }
};

/// Both directions of a square that lies row by row: its columns, then its rows. Inlined: the vectors stay in
/// registers.
template <typename Transform, typename T, typename Vec>
[[gnu::always_inline]] inline void winograd_transform(const Vec (&from)[Transform::kFrom * Transform::kFrom],
                                                      Vec (&to)[Transform::kTo * Transform::kTo]) {
  constexpr int kFrom = Transform::kFrom, kTo = Transform::kTo;
  Vec half[kFrom][kTo];  // by column
#pragma GCC unroll 8
  for (int column = 0; column < kFrom; ++column) {
    Vec line[kFrom];
#pragma GCC unroll 8
    for (int row = 0; row < kFrom; ++row) line[row] = from[row * kFrom + column];
    Transform::template line<T>(line, half[column]);
  }
#pragma GCC unroll 8
  for (int row = 0; row < kTo; ++row) {
    Vec line[kFrom], out[kTo];
#pragma GCC unroll 8
    for (int column = 0; column < kFrom; ++column) line[column] = half[column][row];
    Transform::template line<T>(line, out);
#pragma GCC unroll 8
    for (int column = 0; column < kTo; ++column) to[row * kTo + column] = out[column];
  }
}

}  // namespace tutti::tensor::cpu
