#include <tutti/trainer/data/digits.h>
#include <tutti/trainer/data/generated.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>

namespace tutti::trainer {
namespace {

constexpr int kSide = 28;
constexpr int kPixels = kSide * kSide;
constexpr int kClasses = 10;
constexpr std::int32_t kUnit = 256;  // coordinates are in 1/256 of a pixel

using Canvas = std::array<std::int32_t, kPixels>;  // ink, 0 to 255

// SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators") from a key.
class KeyedRandom {
 public:
  KeyedRandom(std::uint64_t seed, Split split, std::int64_t index) : state_(seed) {
    state_ = next() ^ (split == Split::Train ? 0x7472u : 0x7465u);
    state_ = next() ^ static_cast<std::uint64_t>(index);
  }

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// In [low, high], both included; the bias of the multiplication is far below what a picture shows.
  std::int32_t between(std::int32_t low, std::int32_t high) {
    const auto range = static_cast<std::uint64_t>(high - low + 1);
    return low + static_cast<std::int32_t>((next() >> 32) * range >> 32);
  }

 private:
  std::uint64_t state_;
};

struct Point {
  std::int32_t x;
  std::int32_t y;
};
using Stroke = std::vector<Point>;
using Glyph = std::vector<Stroke>;

// The ways to write a digit, one or two, as SVG writes a path: M begins a stroke, L goes on with it. On a grid of
// 100 x 100, x to the right, y down.
constexpr std::array<std::array<const char*, 2>, kClasses> kPaths = {{
    {"M 50 0 L 67 7 L 78 25 L 82 50 L 78 75 L 67 93 L 50 100 L 33 93 L 22 75 L 18 50 L 22 25 L 33 7 L 50 0"},
    {"M 50 0 L 50 50 L 50 100", "M 30 22 L 52 0 L 52 100"},
    {"M 20 25 L 28 8 L 48 0 L 68 6 L 78 24 L 72 44 L 50 66 L 18 100 L 84 100"},
    {"M 22 10 L 45 0 L 68 6 L 76 24 L 66 42 L 42 48 L 70 54 L 82 74 L 70 94 L 44 100 L 18 90"},
    {"M 62 100 L 62 0 L 14 68 L 88 68", "M 24 0 L 20 52 L 80 52 M 74 10 L 70 55 L 66 100"},
    {"M 78 0 L 30 0 L 24 44 L 50 38 L 74 48 L 82 70 L 70 92 L 44 100 L 18 90"},
    {"M 70 4 L 44 18 L 26 44 L 20 70 L 30 92 L 52 100 L 74 92 L 82 72 L 72 54 L 50 48 L 30 56 L 20 70"},
    {"M 16 0 L 84 0 L 44 100", "M 16 0 L 84 0 L 44 100 M 34 50 L 76 50"},
    {"M 50 48 L 28 38 L 22 22 L 32 6 L 50 0 L 68 6 L 78 22 L 72 38 L 50 48 L 24 60 L 16 78 L 28 94 L 50 100 L 72 94 "
     "L 84 78 L 76 60 L 50 48"},
    {"M 78 34 L 66 48 L 44 50 L 24 42 L 20 24 L 32 6 L 54 0 L 74 10 L 80 32 L 74 70 L 60 100"},
}};

Glyph parse_path(const char* path) {
  Glyph glyph;
  std::istringstream words(path);
  char letter = 0;
  for (Point point{}; words >> letter >> point.x >> point.y;) {
    if (letter == 'M') glyph.emplace_back();
    glyph.back().push_back(point);
  }
  return glyph;
}

const Glyph& glyph(int digit, int choice) {
  static const auto glyphs = [] {
    std::array<std::array<Glyph, 2>, kClasses> parsed;
    for (std::size_t i = 0; i < kPaths.size(); ++i) {
      for (std::size_t way : {0u, 1u}) parsed[i][way] = parse_path(kPaths[i][kPaths[i][way] == nullptr ? 0 : way]);
    }
    return parsed;
  }();
  return glyphs[static_cast<std::size_t>(digit)][static_cast<std::size_t>(choice)];
}

struct Pen {
  std::int32_t radius;  // 1/256 pixel
  std::int32_t ink;     // 0 to 255
};

// How this writer deforms the glyph grid. Factors are in 1/256.
struct Hand {
  std::int32_t scale_x, scale_y;  // 1/256 pixel per grid unit
  std::int32_t slant, tilt;
  std::int32_t center_x, center_y;
  std::int32_t wobble;  // grid units

  Point place(const Point& point, KeyedRandom& random) const {
    const std::int32_t x = point.x - 50 + random.between(-wobble, wobble);
    const std::int32_t y = point.y - 50 + random.between(-wobble, wobble);
    return {center_x + (x - y * slant / 256) * scale_x, center_y + (y + x * tilt / 256) * scale_y};
  }
};

Hand draw_hand(KeyedRandom& random) {
  Hand hand{};
  hand.scale_x = random.between(30, 52);  // 12 to 20 pixels wide before slant
  hand.scale_y = random.between(40, 58);  // 16 to 23 pixels high
  hand.slant = random.between(-60, 110);
  hand.tilt = random.between(-50, 50);
  hand.center_x = kSide / 2 * kUnit + random.between(-640, 640);
  hand.center_y = kSide / 2 * kUnit + random.between(-512, 512);
  hand.wobble = 6;
  return hand;
}

// Squared distance from p to the segment a-b, in (1/256 pixel)^2.
std::int64_t distance_squared(Point p, Point a, Point b) {
  const std::int64_t dx = b.x - a.x;
  const std::int64_t dy = b.y - a.y;
  const std::int64_t px = p.x - a.x;
  const std::int64_t py = p.y - a.y;
  const std::int64_t along = px * dx + py * dy;
  const std::int64_t length = dx * dx + dy * dy;
  if (along <= 0) {
    return px * px + py * py;
  }
  if (along >= length) {
    const std::int64_t qx = p.x - b.x;
    const std::int64_t qy = p.y - b.y;
    return qx * qx + qy * qy;
  }
  const std::int64_t across = px * dy - py * dx;
  return across * across / length;
}

// Full ink within the pen's radius, none beyond it by more than one pixel; strokes that cross do not add up.
void draw_segment(Canvas& canvas, Point a, Point b, Pen pen) {
  const std::int64_t inner = std::int64_t{pen.radius} * pen.radius;
  const std::int32_t reach = pen.radius + kUnit;
  const std::int64_t outer = std::int64_t{reach} * reach;
  const int left = std::max(0, (std::min(a.x, b.x) - reach) / kUnit);
  const int right = std::min(kSide - 1, (std::max(a.x, b.x) + reach) / kUnit);
  const int top = std::max(0, (std::min(a.y, b.y) - reach) / kUnit);
  const int bottom = std::min(kSide - 1, (std::max(a.y, b.y) + reach) / kUnit);
  for (int row = top; row <= bottom; ++row) {
    for (int column = left; column <= right; ++column) {
      const Point center{column * kUnit + kUnit / 2, row * kUnit + kUnit / 2};
      const std::int64_t distance = distance_squared(center, a, b);
      if (distance < outer) {
        const std::int64_t cover = std::min<std::int64_t>(256, (outer - distance) * 256 / (outer - inner));
        std::int32_t& pixel = canvas[static_cast<std::size_t>(row * kSide + column)];
        pixel = std::max(pixel, static_cast<std::int32_t>(pen.ink * cover / 256));
      }
    }
  }
}

void draw_digit(Canvas& canvas, int digit, KeyedRandom& random) {
  const Hand hand = draw_hand(random);
  const Pen pen{random.between(96, 340), random.between(140, 255)};
  for (const Stroke& stroke : glyph(digit, random.between(0, 1))) {
    Point previous{};
    for (const Point& point : stroke) {
      const Point here = hand.place(point, random);
      if (&point != &stroke.front()) draw_segment(canvas, previous, here, pen);
      previous = here;
    }
  }
}

// A short mark that belongs to no digit, anywhere.
void draw_stray_mark(Canvas& canvas, KeyedRandom& random) {
  const Point from{random.between(0, kSide * kUnit), random.between(0, kSide * kUnit)};
  const Point to{from.x + random.between(-5 * kUnit, 5 * kUnit), from.y + random.between(-5 * kUnit, 5 * kUnit)};
  draw_segment(canvas, from, to, {random.between(64, 160), random.between(80, 220)});
}

void add_noise(const Canvas& canvas, KeyedRandom& random, std::uint8_t* pixels) {
  const std::int32_t strength = random.between(10, 90);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kPixels; ++i) {
    bits = i % 8 == 0 ? random.next() : bits >> 8;
    const std::int32_t noise = (static_cast<std::int32_t>(bits & 255) - 128) * strength / 128;
    pixels[i] = static_cast<std::uint8_t>(std::clamp(canvas[i] + noise, 0, 255));
  }
}

std::int64_t draw_image(std::uint64_t seed, Split split, std::int64_t index, std::uint8_t* pixels) {
  KeyedRandom random(seed, split, index);
  const int digit = random.between(0, kClasses - 1);
  Canvas canvas{};
  draw_digit(canvas, digit, random);
  draw_stray_mark(canvas, random);
  add_noise(canvas, random, pixels);
  return digit;
}

}  // namespace

ImageDataset generate_digits(Split split, std::uint64_t seed, std::int64_t count) {
  ImageDataset dataset = generated_dataset("digits", split, count, kSide, 1, [&](std::int64_t i, std::uint8_t* pixels) {
    return draw_image(seed, split, i, pixels);
  });
  dataset.classes = kClasses;
  return dataset;
}

ImageDataset generate_digits(Split split) {
  return generate_digits(split, 0, split == Split::Train ? kDigitsTrainCount : kDigitsTestCount);
}

}  // namespace tutti::trainer
