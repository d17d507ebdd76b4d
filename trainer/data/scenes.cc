#include <tutti/tensor/keyed_stream.h>
#include <tutti/trainer/data/generated.h>
#include <tutti/trainer/data/scenes.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

namespace tutti::trainer {
namespace {

constexpr int kSide = 64;
constexpr int kEndless = 200;  // pixels: from one side of the picture to the other, in every direction

struct Colour {
  int red, green, blue;
};
constexpr Colour kGrass{95, 120, 70}, kLawn{135, 165, 100}, kSoil{150, 125, 95}, kSand{205, 190, 150};
constexpr Colour kWater{60, 90, 110}, kLeaves{55, 80, 50}, kScrub{110, 110, 75}, kAsphalt{120, 120, 120};
constexpr Colour kRoof{170, 140, 125}, kWhite{225, 225, 220}, kShadow{45, 45, 50};

// A rectangle or a disc. Lengths are halves, in pixels; a picture has one direction, along which `length` lies.
struct Mark {
  Colour colour;
  int length;  // of a disc: its radius
  int width;   // 0: a disc
  bool shadow = false;
};
constexpr Mark kRoad{kAsphalt, kEndless, 6}, kCrossing{kAsphalt, 6, kEndless}, kLine{kWhite, kEndless, 1};
constexpr Mark kTree{kLeaves, 3, 0}, kCar{kWhite, 2, 1};

enum class Place {
  Once,     // `along` and `across` pixels from the middle
  Rows,     // in a grid with these steps, of which one cell in ten is empty; step 0: one row
  Anywhere  // `along` to `across` times
};

struct Layer {
  Mark mark;
  Place place = Place::Once;
  int along = 0;
  int across = 0;
};

struct Scene {
  const char* name;
  std::vector<Colour> ground;  // two of these, mixed
  std::vector<Layer> layers;   // the last one on top
};

const std::vector<Scene>& scenes() {
  static const std::vector<Colour> land{kGrass, kSoil, kScrub}, paved{kAsphalt};
  static const std::vector<Scene> table = {
      {"agricultural", land, {{{kSoil, kEndless, 1}, Place::Rows, 0, 6}}},
      {"airplane", paved, {{{kWhite, 17, 2}}, {{kWhite, 2, 17}}, {{kWhite, 1, 6}, Place::Once, -16, 0}}},
      {"baseballdiamond", land, {{{kSoil, 16, 0}}, {{kGrass, 8, 8}}}},
      {"beach", {kSand}, {{{kWhite, kEndless, 64}, Place::Once, 0, 62}, {{kWater, kEndless, 64}, Place::Once, 0, 66}}},
      {"buildings", paved, {{{kRoof, 14, 10, true}, Place::Anywhere, 2, 3}}},
      {"chaparral", {kSand, kSoil}, {{{kScrub, 2, 0}, Place::Anywhere, 70, 110}}},
      {"denseresidential", land, {{{kRoof, 4, 3, true}, Place::Rows, 11, 11}, {kTree, Place::Anywhere, 3, 8}}},
      {"forest", {kLeaves, kGrass}, {{kTree, Place::Anywhere, 90, 140}}},
      {"freeway",
       land,
       {{kRoad, Place::Once, 0, -8},
        {kRoad, Place::Once, 0, 8},
        {kLine, Place::Once, 0, -8},
        {kLine, Place::Once, 0, 8},
        {kCar, Place::Anywhere, 2, 8}}},
      {"golfcourse",
       {kGrass},
       {{kTree, Place::Anywhere, 8, 16}, {{kLawn, 10, 0}}, {{kSand, 4, 0}, Place::Anywhere, 2, 4}}},
      {"harbor", {kWater}, {{{kWhite, 2, 6}, Place::Rows, 6, 20}, {{kAsphalt, kEndless, 2}}}},
      {"intersection", land, {{kRoad}, {kCrossing}, {kCar, Place::Anywhere, 2, 8}}},
      {"mediumresidential", land, {{{kRoof, 6, 5, true}, Place::Rows, 19, 19}, {kTree, Place::Anywhere, 6, 12}}},
      {"mobilehomepark", {kAsphalt, kSoil}, {{{kRoof, 5, 2, true}, Place::Rows, 13, 9}}},
      {"overpass", land, {{kRoad}, {kLine}, {{kWhite, 8, kEndless, true}}, {kCrossing}, {{kWhite, 1, kEndless}}}},
      {"parkinglot", paved, {{kCar, Place::Rows, 8, 5}}},
      {"river", land, {{kTree, Place::Anywhere, 20, 40}, {{kWater, 6, 0}, Place::Rows, 2, 0}}},
      {"runway", land, {{{kAsphalt, kEndless, 12}}, {{kWhite, 3, 1}, Place::Rows, 10, 0}}},
      {"sparseresidential",
       land,
       {{kTree, Place::Anywhere, 14, 24}, {kLine, Place::Once, 0, 14}, {{kRoof, 7, 5, true}}}},
      {"storagetanks", land, {{{kWhite, 8, 0, true}, Place::Anywhere, 3, 5}}},
      {"tenniscourt",
       land,
       {{{kSoil, 21, 13}},
        {{kWhite, 16, 9}},
        {{kGrass, 7, 8}, Place::Once, -8, 0},
        {{kGrass, 7, 8}, Place::Once, 8, 0}}},
  };
  return table;
}

// Paints one picture. Integers only, so that every machine paints the same bytes; places are in 1/16 pixel.
class Painter {
 public:
  explicit Painter(std::uint64_t key) : random_(key, 0) {}

  void paint(const Scene& scene, std::uint8_t* pixels) {
    pixels_ = pixels;
    middle_ = {between(20 * kUnit, 44 * kUnit), between(20 * kUnit, 44 * kUnit)};
    const int direction = between(0, kDirections - 1);
    cosine_ = kCosine[static_cast<std::size_t>(direction)];
    sine_ = kCosine[static_cast<std::size_t>((direction + kDirections * 3 / 4) % kDirections)];
    scale_ = between(kUnit * 7 / 8, kUnit * 9 / 8);
    ground(near(any_of(scene.ground)), near(any_of(scene.ground)));
    for (const Layer& layer : scene.layers) add(layer);
    finish();
  }

 private:
  static constexpr int kUnit = 16;
  static constexpr int kOne = 256;  // fractions are in 1/256
  static constexpr int kDirections = 24;
  // Of 0, 15, ... 345 degrees.
  static constexpr std::array<int, kDirections> kCosine = {256,  247,  222,  181,  128,  66,   0,    -66,
                                                           -128, -181, -222, -247, -256, -247, -222, -181,
                                                           -128, -66,  0,    66,   128,  181,  222,  247};
  struct Spot {
    int x, y;
  };

  // In [low, high], both included.
  int between(int low, int high) {
    return low + static_cast<int>(random_.below(static_cast<std::uint32_t>(high - low + 1)));
  }
  const Colour& any_of(const std::vector<Colour>& colours) {
    return colours[static_cast<std::size_t>(between(0, static_cast<int>(colours.size()) - 1))];
  }
  // Mostly lighter or darker, a little another hue.
  Colour near(const Colour& colour) {
    const int light = between(-25, 25);
    const int red = between(-8, 8), green = between(-8, 8), blue = between(-8, 8);
    return {colour.red + light + red, colour.green + light + green, colour.blue + light + blue};
  }
  // `along` and `across` the picture's direction, in 1/16 pixel.
  Spot moved(Spot from, int along, int across) const {
    return {from.x + (along * cosine_ - across * sine_) / kOne, from.y + (along * sine_ + across * cosine_) / kOne};
  }

  void put(int x, int y, const Colour& colour) {
    std::uint8_t* const pixel = pixels_ + (y * kSide + x) * 3;
    pixel[0] = static_cast<std::uint8_t>(std::clamp(colour.red, 0, 255));
    pixel[1] = static_cast<std::uint8_t>(std::clamp(colour.green, 0, 255));
    pixel[2] = static_cast<std::uint8_t>(std::clamp(colour.blue, 0, 255));
  }

  // Value noise: random shares on a grid of 8 or 16 pixels, bilinear between.
  void ground(const Colour& a, const Colour& b) {
    const int blot = between(0, 1) == 0 ? 8 : 16;
    const int across = kSide / blot + 1;
    std::array<int, (kSide / 8 + 1) * (kSide / 8 + 1)> shares{};
    for (int i = 0; i < across * across; ++i) shares[static_cast<std::size_t>(i)] = between(0, kOne);
    const auto mixed = [](int from, int to, int share) { return from + (to - from) * share / kOne; };
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const int right = x % blot * kOne / blot;
        const auto row = [&](int at) {
          const auto corner = static_cast<std::size_t>(at * across + x / blot);
          return mixed(shares[corner], shares[corner + 1], right);
        };
        const int share = mixed(row(y / blot), row(y / blot + 1), y % blot * kOne / blot);
        put(x, y, {mixed(a.red, b.red, share), mixed(a.green, b.green, share), mixed(a.blue, b.blue, share)});
      }
    }
  }

  void add(const Layer& layer) {
    switch (layer.place) {
      case Place::Once:
        draw(layer.mark, moved(middle_, layer.along * scale_, layer.across * scale_));
        break;
      case Place::Anywhere:
        for (int i = between(layer.along, layer.across); i > 0; --i) {
          draw(layer.mark, {between(0, kSide * kUnit), between(0, kSide * kUnit)});
        }
        break;
      case Place::Rows:
        const int columns = layer.along == 0 ? 0 : kSide / layer.along + 2;
        const int rows = layer.across == 0 ? 0 : kSide / layer.across + 2;
        for (int row = -rows; row <= rows; ++row) {
          for (int column = -columns; column <= columns; ++column) {
            if (between(0, 9) == 0) continue;
            draw(layer.mark, moved(middle_, column * layer.along * scale_, row * layer.across * scale_));
          }
        }
    }
  }

  void draw(const Mark& mark, Spot center) {
    if (mark.shadow) fill(mark, {center.x + kUnit, center.y + kUnit}, kShadow);
    fill(mark, center, near(mark.colour));
  }

  void fill(const Mark& mark, Spot center, const Colour& colour) {
    const int length = mark.length * scale_;
    const int width = mark.width * scale_;
    const int reach = length + width;
    const int top = std::max(0, (center.y - reach) / kUnit), bottom = std::min(kSide - 1, (center.y + reach) / kUnit);
    const int left = std::max(0, (center.x - reach) / kUnit), right = std::min(kSide - 1, (center.x + reach) / kUnit);
    for (int y = top; y <= bottom; ++y) {
      for (int x = left; x <= right; ++x) {
        const int dx = x * kUnit + kUnit / 2 - center.x;
        const int dy = y * kUnit + kUnit / 2 - center.y;
        const int along = (dx * cosine_ + dy * sine_) / kOne;
        const int across = (dy * cosine_ - dx * sine_) / kOne;
        const bool inside = mark.width == 0 ? dx * dx + dy * dy <= length * length
                                            : std::abs(along) <= length && std::abs(across) <= width;
        if (inside) put(x, y, colour);
      }
    }
  }

  // Each byte changes a little, and the whole picture's light by up to 15 percent.
  void finish() {
    const int strength = between(4, 18);
    const int percent = 100 + between(-15, 15);
    for (int i = 0; i < kSide * kSide * 3; ++i) {
      pixels_[i] =
          static_cast<std::uint8_t>(std::clamp(pixels_[i] * percent / 100 + between(-strength, strength), 0, 255));
    }
  }

  tensor::KeyedStream random_;
  std::uint8_t* pixels_ = nullptr;
  Spot middle_{};
  int cosine_ = kOne;
  int sine_ = 0;
  int scale_ = kUnit;  // 1/16 pixels for each pixel of the table
};

}  // namespace

ImageDataset generate_scenes(Split split, std::uint64_t seed, std::int64_t count) {
  const auto draw = [&](std::int64_t i, std::uint8_t* pixels) {
    const std::size_t label = static_cast<std::size_t>(i) % scenes().size();
    Painter painter(tensor::sample_key(seed, split == Split::Train ? 0 : 1, static_cast<std::uint64_t>(i)));
    painter.paint(scenes()[label], pixels);
    return static_cast<std::int64_t>(label);
  };
  ImageDataset dataset = generated_dataset("scenes", split, count, kSide, 3, draw);
  dataset.classes = static_cast<int>(scenes().size());
  for (const Scene& scene : scenes()) dataset.class_names.emplace_back(scene.name);
  return dataset;
}

ImageDataset generate_scenes(Split split) {
  return generate_scenes(split, 0, split == Split::Train ? kScenesTrainCount : kScenesTestCount);
}

}  // namespace tutti::trainer
