// SceneCanvas: what generated scenes are painted with. Integers only, so that every machine paints the same bytes.
//
// 64 x 64 pixels; places and lengths are in 1/16 pixel, directions in steps of 15 degrees. Shapes that leave the canvas
// are cut. Thread-safety: a canvas belongs to one thread.
#pragma once

#include <tutti/tensor/keyed_stream.h>

#include <array>
#include <cstdint>

namespace tutti::trainer {

struct Colour {
  int red = 0;
  int green = 0;
  int blue = 0;
};

struct Spot {
  int x = 0;
  int y = 0;
};

class SceneCanvas {
 public:
  static constexpr int kSide = 64;
  static constexpr int kUnit = 16;             // of a pixel
  static constexpr int kSpan = kSide * kUnit;  // of the canvas
  static constexpr int kDirections = 24;

  explicit SceneCanvas(std::uint64_t key) : random_(key, 0) {}

  /// In [low, high], both included.
  int between(int low, int high) {
    return low + static_cast<int>(random_.below(static_cast<std::uint32_t>(high - low + 1)));
  }
  bool chance(int percent) { return between(0, 99) < percent; }
  Spot anywhere(int margin = 0) { return {between(margin, kSpan - margin), between(margin, kSpan - margin)}; }
  Colour near(const Colour& colour, int spread);

  /// `distance` from `from` in a direction; direction 0 is right, 6 is down.
  static Spot moved(Spot from, int direction, int distance);

  /// Fills the canvas with a mixture of two colours in blots of about `blot` pixels (a power of 2).
  void ground(const Colour& a, const Colour& b, int blot);
  void disc(Spot center, int radius, const Colour& colour);
  /// A rectangle whose long axis lies in `direction`.
  void box(Spot center, int direction, int half_length, int half_width, const Colour& colour);
  /// A road from one side of the canvas to the other, through a spot.
  void band(Spot through, int direction, int half_width, const Colour& colour) {
    box(through, direction, 2 * kSpan, half_width, colour);
  }
  /// All of one side of a line that winds by `swing`.
  void shore(Spot through, int direction, int swing, const Colour& colour);
  /// Each byte changes by up to `strength`, and the whole picture's light by up to `light` percent.
  void finish(int strength, int light);

  const std::array<std::uint8_t, kSide * kSide * 3>& pixels() const { return pixels_; }

 private:
  void put(int x, int y, const Colour& colour);

  tensor::KeyedStream random_;
  std::array<std::uint8_t, kSide * kSide * 3> pixels_{};
};

}  // namespace tutti::trainer
