#include <tutti/trainer/data/scene_canvas.h>

#include <algorithm>
#include <cstdlib>

namespace tutti::trainer {
namespace {

constexpr int kOne = 256;
// 256 cos of 0, 15, ... 345 degrees; sine is a quarter turn back.
constexpr std::array<int, SceneCanvas::kDirections> kCosine = {256,  247,  222,  181,  128,  66,   0,    -66,
                                                               -128, -181, -222, -247, -256, -247, -222, -181,
                                                               -128, -66,  0,    66,   128,  181,  222,  247};

int turned(int direction) {
  const int rest = direction % SceneCanvas::kDirections;
  return rest < 0 ? rest + SceneCanvas::kDirections : rest;
}
int cosine(int direction) { return kCosine[static_cast<std::size_t>(turned(direction))]; }
int sine(int direction) { return cosine(direction - SceneCanvas::kDirections / 4); }

int mixed(int a, int b, int share) { return a + (b - a) * share / kOne; }

}  // namespace

Colour SceneCanvas::near(const Colour& colour, int spread) {
  const int light = between(-spread, spread);  // mostly lighter or darker, a little another hue
  const auto part = [&](int value) { return std::clamp(value + light + between(-spread / 3, spread / 3), 0, 255); };
  const int red = part(colour.red);
  const int green = part(colour.green);
  return {red, green, part(colour.blue)};
}

Spot SceneCanvas::moved(Spot from, int direction, int distance) {
  return {from.x + distance * cosine(direction) / kOne, from.y + distance * sine(direction) / kOne};
}

void SceneCanvas::put(int x, int y, const Colour& colour) {
  std::uint8_t* const pixel = pixels_.data() + (y * kSide + x) * 3;
  pixel[0] = static_cast<std::uint8_t>(std::clamp(colour.red, 0, 255));
  pixel[1] = static_cast<std::uint8_t>(std::clamp(colour.green, 0, 255));
  pixel[2] = static_cast<std::uint8_t>(std::clamp(colour.blue, 0, 255));
}

// Value noise: random shares on a grid, bilinear between.
void SceneCanvas::ground(const Colour& a, const Colour& b, int blot) {
  constexpr int kMost = kSide + 1;
  std::array<int, kMost * kMost> shares{};
  const int across = kSide / blot + 1;
  for (int i = 0; i < across * across; ++i) shares[static_cast<std::size_t>(i)] = between(0, kOne);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const auto corner = [&](int dx, int dy) {
        return shares[static_cast<std::size_t>((y / blot + dy) * across + x / blot + dx)];
      };
      const int right = x % blot * kOne / blot;
      const int down = y % blot * kOne / blot;
      const int share = mixed(mixed(corner(0, 0), corner(1, 0), right), mixed(corner(0, 1), corner(1, 1), right), down);
      put(x, y, {mixed(a.red, b.red, share), mixed(a.green, b.green, share), mixed(a.blue, b.blue, share)});
    }
  }
}

void SceneCanvas::disc(Spot center, int radius, const Colour& colour) {
  const int top = std::max(0, (center.y - radius) / kUnit), bottom = std::min(kSide - 1, (center.y + radius) / kUnit);
  const int left = std::max(0, (center.x - radius) / kUnit), right = std::min(kSide - 1, (center.x + radius) / kUnit);
  for (int y = top; y <= bottom; ++y) {
    for (int x = left; x <= right; ++x) {
      const int dx = x * kUnit + kUnit / 2 - center.x;
      const int dy = y * kUnit + kUnit / 2 - center.y;
      if (dx * dx + dy * dy <= radius * radius) put(x, y, colour);
    }
  }
}

void SceneCanvas::box(Spot center, int direction, int half_length, int half_width, const Colour& colour) {
  const int reach = half_length + half_width;
  const int top = std::max(0, (center.y - reach) / kUnit), bottom = std::min(kSide - 1, (center.y + reach) / kUnit);
  const int left = std::max(0, (center.x - reach) / kUnit), right = std::min(kSide - 1, (center.x + reach) / kUnit);
  for (int y = top; y <= bottom; ++y) {
    for (int x = left; x <= right; ++x) {
      const int dx = x * kUnit + kUnit / 2 - center.x;
      const int dy = y * kUnit + kUnit / 2 - center.y;
      const int along = (dx * cosine(direction) + dy * sine(direction)) / kOne;
      const int across = (dy * cosine(direction) - dx * sine(direction)) / kOne;
      if (std::abs(along) <= half_length && std::abs(across) <= half_width) put(x, y, colour);
    }
  }
}

void SceneCanvas::shore(Spot through, int direction, int swing, const Colour& colour) {
  const int phase = between(0, kDirections - 1);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int dx = x * kUnit + kUnit / 2 - through.x;
      const int dy = y * kUnit + kUnit / 2 - through.y;
      const int along = (dx * cosine(direction) + dy * sine(direction)) / kOne;
      const int across = (dy * cosine(direction) - dx * sine(direction)) / kOne;
      const int winding = swing * sine(phase + (along + 4 * kSpan) / (2 * kUnit)) / kOne;
      if (across > winding) put(x, y, colour);
    }
  }
}

void SceneCanvas::finish(int strength, int light) {
  const int percent = 100 + between(-light, light);
  for (std::uint8_t& byte : pixels_) {
    const int value = byte * percent / 100 + between(-strength, strength);
    byte = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
  }
}

}  // namespace tutti::trainer
