#include <tutti/trainer/data/scene_canvas.h>
#include <tutti/trainer/data/scenes.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace tutti::trainer {
namespace {

using tensor::DType;
using tensor::Shape;
using tensor::Tensor;

constexpr int kPx = SceneCanvas::kUnit;
constexpr int kRightAngle = SceneCanvas::kDirections / 4;
constexpr Colour kGrass{95, 120, 70}, kSoil{150, 125, 95}, kSand{205, 190, 150}, kWater{60, 90, 110};
constexpr Colour kLeaves{55, 80, 50}, kAsphalt{120, 120, 120}, kRoof{170, 140, 125}, kWhite{225, 225, 220};
constexpr Colour kShadow{45, 45, 50}, kScrub{110, 110, 75};

int any_direction(SceneCanvas& canvas) { return canvas.between(0, SceneCanvas::kDirections - 1); }
Spot near_middle(SceneCanvas& canvas) { return canvas.anywhere(20 * kPx); }

void any_ground(SceneCanvas& canvas) {
  const Colour& a = canvas.chance(50) ? kGrass : kSoil;
  const Colour& b = canvas.chance(50) ? kScrub : kGrass;
  canvas.ground(canvas.near(a, 25), canvas.near(b, 25), canvas.chance(50) ? 8 : 16);
}

void trees(SceneCanvas& canvas, int least, int most) {
  for (int i = canvas.between(least, most); i > 0; --i) {
    canvas.disc(canvas.anywhere(), canvas.between(kPx, 3 * kPx), canvas.near(kLeaves, 20));
  }
}

void car(SceneCanvas& canvas, Spot place, int direction) {
  canvas.box(place, direction, 2 * kPx, kPx, canvas.near(canvas.chance(50) ? kWhite : kShadow, 30));
}

void house(SceneCanvas& canvas, Spot place, int direction, int half_length, int half_width) {
  canvas.box({place.x + kPx, place.y + kPx}, direction, half_length, half_width, kShadow);
  canvas.box(place, direction, half_length, half_width, canvas.near(kRoof, 40));
}

// Houses in rows: one in each cell of a turned grid, some left out.
void houses(SceneCanvas& canvas, int spacing, int half_length, int half_width, int percent) {
  const int direction = any_direction(canvas);
  const Spot origin = near_middle(canvas);
  const int reach = SceneCanvas::kSpan / spacing + 1;
  for (int row = -reach; row <= reach; ++row) {
    for (int column = -reach; column <= reach; ++column) {
      if (!canvas.chance(percent)) continue;
      Spot place = SceneCanvas::moved(origin, direction, column * spacing);
      place = SceneCanvas::moved(place, direction + kRightAngle, row * spacing);
      house(canvas, place, direction, half_length + canvas.between(0, kPx), half_width + canvas.between(0, kPx));
    }
  }
}

void agricultural(SceneCanvas& canvas) {
  any_ground(canvas);
  const int direction = any_direction(canvas);
  const int spacing = canvas.between(4 * kPx, 8 * kPx);
  const Colour furrow = canvas.near(canvas.chance(50) ? kSoil : kLeaves, 25);
  for (int at = -SceneCanvas::kSpan; at <= SceneCanvas::kSpan; at += spacing) {
    canvas.band(SceneCanvas::moved({SceneCanvas::kSpan / 2, SceneCanvas::kSpan / 2}, direction + kRightAngle, at),
                direction, spacing / 4, furrow);
  }
}

void airplane(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kAsphalt, 35), canvas.near(kAsphalt, 35), 16);
  const int direction = any_direction(canvas);
  const Spot place = near_middle(canvas);
  const int length = canvas.between(14 * kPx, 20 * kPx);
  const Colour paint = canvas.near(kWhite, 25);
  canvas.box(place, direction, length, 2 * kPx, paint);
  canvas.box(place, direction + kRightAngle, length, 2 * kPx, paint);
  canvas.box(SceneCanvas::moved(place, direction, -length + kPx), direction + kRightAngle, length / 3, kPx, paint);
}

void baseballdiamond(SceneCanvas& canvas) {
  any_ground(canvas);
  const Spot place = near_middle(canvas);
  const int radius = canvas.between(13 * kPx, 19 * kPx);
  const int direction = any_direction(canvas);
  canvas.disc(place, radius, canvas.near(kSoil, 25));
  canvas.box(place, direction, radius / 2, radius / 2, canvas.near(kGrass, 20));
}

void beach(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kSand, 20), canvas.near(kSand, 20), 16);
  const Spot through = near_middle(canvas);
  const int direction = any_direction(canvas);
  canvas.shore(through, direction, canvas.between(0, 2 * kPx), canvas.near(kWhite, 15));
  canvas.shore(SceneCanvas::moved(through, direction + kRightAngle, 4 * kPx), direction, 2 * kPx,
               canvas.near(kWater, 30));
}

void buildings(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kAsphalt, 35), canvas.near(kAsphalt, 35), 16);
  const int direction = any_direction(canvas);
  for (int i = canvas.between(2, 3); i > 0; --i) {
    const Spot place = canvas.anywhere(12 * kPx);
    house(canvas, place, direction, canvas.between(11 * kPx, 18 * kPx), canvas.between(8 * kPx, 12 * kPx));
  }
}

void chaparral(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kSand, 30), canvas.near(kSoil, 25), 8);
  for (int i = canvas.between(70, 110); i > 0; --i) {
    canvas.disc(canvas.anywhere(), canvas.between(kPx, 2 * kPx), canvas.near(kScrub, 25));
  }
}

void denseresidential(SceneCanvas& canvas) {
  any_ground(canvas);
  houses(canvas, 11 * kPx, 4 * kPx, 3 * kPx, 92);
  trees(canvas, 3, 8);
}

void forest(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kLeaves, 20), canvas.near(kGrass, 25), 4);
  for (int i = canvas.between(90, 140); i > 0; --i) {
    canvas.disc(canvas.anywhere(), canvas.between(2 * kPx, 4 * kPx), canvas.near(kLeaves, 30));
  }
}

void road(SceneCanvas& canvas, Spot through, int direction, int half_width) {
  canvas.band(through, direction, half_width, canvas.near(kAsphalt, 25));
  canvas.band(through, direction, kPx / 2, canvas.near(kWhite, 15));
  for (int i = canvas.between(1, 4); i > 0; --i) {
    const Spot lane =
        SceneCanvas::moved(through, direction + kRightAngle, canvas.chance(50) ? half_width / 2 : -half_width / 2);
    car(canvas, SceneCanvas::moved(lane, direction, canvas.between(-30 * kPx, 30 * kPx)), direction);
  }
}

void freeway(SceneCanvas& canvas) {
  any_ground(canvas);
  const int direction = any_direction(canvas);
  const Spot through = near_middle(canvas);
  road(canvas, SceneCanvas::moved(through, direction + kRightAngle, 8 * kPx), direction, 5 * kPx);
  road(canvas, SceneCanvas::moved(through, direction + kRightAngle, -8 * kPx), direction, 5 * kPx);
  trees(canvas, 0, 5);
}

void golfcourse(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kGrass, 20), canvas.near(kGrass, 25), 16);
  trees(canvas, 8, 16);
  const Spot green = near_middle(canvas);
  canvas.disc(green, canvas.between(8 * kPx, 12 * kPx), canvas.near({135, 165, 100}, 20));
  for (int i = canvas.between(2, 4); i > 0; --i) {
    canvas.disc(SceneCanvas::moved(green, any_direction(canvas), 13 * kPx), canvas.between(3 * kPx, 5 * kPx),
                canvas.near(kSand, 20));
  }
}

void harbor(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kWater, 30), canvas.near(kWater, 20), 16);
  const int direction = any_direction(canvas);
  const Spot middle = near_middle(canvas);
  canvas.band(middle, direction, 2 * kPx, canvas.near(kAsphalt, 30));
  for (int at = -45 * kPx; at <= 45 * kPx; at += 6 * kPx) {
    for (const int side : {-10 * kPx, 10 * kPx}) {
      if (!canvas.chance(85)) continue;
      const Spot place = SceneCanvas::moved(SceneCanvas::moved(middle, direction, at), direction + kRightAngle, side);
      canvas.box(place, direction + kRightAngle, 6 * kPx, 2 * kPx, canvas.near(kWhite, 30));
    }
  }
}

void intersection(SceneCanvas& canvas) {
  any_ground(canvas);
  const int direction = any_direction(canvas);
  const Spot middle = near_middle(canvas);
  const int half_width = canvas.between(5 * kPx, 7 * kPx);
  road(canvas, middle, direction, half_width);
  road(canvas, middle, direction + kRightAngle, half_width);
  canvas.box(middle, direction, half_width, half_width, canvas.near(kAsphalt, 20));
  trees(canvas, 0, 6);
}

void mediumresidential(SceneCanvas& canvas) {
  any_ground(canvas);
  houses(canvas, 19 * kPx, 6 * kPx, 5 * kPx, 85);
  trees(canvas, 6, 12);
}

void mobilehomepark(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kAsphalt, 30), canvas.near(kSoil, 25), 16);
  houses(canvas, 13 * kPx, 5 * kPx, 2 * kPx, 95);
}

void overpass(SceneCanvas& canvas) {
  any_ground(canvas);
  const int direction = any_direction(canvas);
  const Spot middle = near_middle(canvas);
  road(canvas, middle, direction, 6 * kPx);
  const int over = direction + kRightAngle + canvas.between(-2, 2);
  canvas.band(middle, over, 9 * kPx, kShadow);
  canvas.band(middle, over, 8 * kPx, canvas.near(kWhite, 25));
  road(canvas, middle, over, 6 * kPx);
}

void parkinglot(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kAsphalt, 35), canvas.near(kAsphalt, 20), 16);
  const int direction = any_direction(canvas);
  const Spot origin = near_middle(canvas);
  for (int row = -6; row <= 6; ++row) {
    for (int column = -12; column <= 12; ++column) {
      if (!canvas.chance(85)) continue;
      const Spot place = SceneCanvas::moved(origin, direction, column * 5 * kPx);
      car(canvas, SceneCanvas::moved(place, direction + kRightAngle, row * 8 * kPx), direction + kRightAngle);
    }
  }
}

void river(SceneCanvas& canvas) {
  any_ground(canvas);
  trees(canvas, 20, 40);
  const Spot through = near_middle(canvas);
  const int direction = any_direction(canvas);
  int bend = 0;
  Spot place = SceneCanvas::moved(through, direction, -48 * kPx);
  const int radius = canvas.between(4 * kPx, 7 * kPx);
  const Colour water = canvas.near(kWater, 30);
  for (int step = 0; step < 50; ++step) {
    canvas.disc(place, radius, water);
    if (step % 6 == 0) bend = std::clamp(bend + canvas.between(-2, 2), -4, 4);
    place = SceneCanvas::moved(place, direction + bend, 2 * kPx);
  }
}

void runway(SceneCanvas& canvas) {
  any_ground(canvas);
  const int direction = any_direction(canvas);
  const Spot middle = near_middle(canvas);
  const int half_width = canvas.between(10 * kPx, 14 * kPx);
  canvas.band(middle, direction, half_width, canvas.near(kAsphalt, 30));
  for (int at = -48 * kPx; at <= 48 * kPx; at += 10 * kPx) {
    canvas.box(SceneCanvas::moved(middle, direction, at), direction, 3 * kPx, kPx, kWhite);
  }
  for (const int side : {-half_width + kPx, half_width - kPx}) {
    canvas.band(SceneCanvas::moved(middle, direction + kRightAngle, side), direction, kPx / 2, kWhite);
  }
}

void sparseresidential(SceneCanvas& canvas) {
  any_ground(canvas);
  trees(canvas, 14, 24);
  const Spot place = near_middle(canvas);
  const int direction = any_direction(canvas);
  canvas.band(SceneCanvas::moved(place, direction + kRightAngle, 14 * kPx), direction, kPx, canvas.near(kAsphalt, 25));
  house(canvas, place, direction, 7 * kPx, 5 * kPx);
}

void storagetanks(SceneCanvas& canvas) {
  any_ground(canvas);
  const int radius = canvas.between(6 * kPx, 11 * kPx);
  for (int i = canvas.between(3, 5); i > 0; --i) {
    const Spot place = canvas.anywhere(8 * kPx);
    canvas.disc({place.x + 2 * kPx, place.y + 2 * kPx}, radius, kShadow);
    canvas.disc(place, radius, canvas.near(kWhite, 25));
  }
}

void tenniscourt(SceneCanvas& canvas) {
  any_ground(canvas);
  const int direction = any_direction(canvas);
  const Spot middle = near_middle(canvas);
  const Colour court = canvas.near(canvas.chance(50) ? kWater : kGrass, 25);
  canvas.box(middle, direction, 21 * kPx, 13 * kPx, canvas.near(canvas.chance(50) ? kSoil : kGrass, 25));
  canvas.box(middle, direction, 16 * kPx, 9 * kPx, kWhite);
  for (const int side : {-8 * kPx, 8 * kPx}) {
    canvas.box(SceneCanvas::moved(middle, direction, side), direction, 7 * kPx, 8 * kPx, court);
  }
  canvas.box(middle, direction, 12 * kPx, kPx / 2, kWhite);
}

struct Scene {
  const char* name;
  void (*paint)(SceneCanvas&);
};

constexpr std::array<Scene, 21> kScenes = {{
    {"agricultural", agricultural},
    {"airplane", airplane},
    {"baseballdiamond", baseballdiamond},
    {"beach", beach},
    {"buildings", buildings},
    {"chaparral", chaparral},
    {"denseresidential", denseresidential},
    {"forest", forest},
    {"freeway", freeway},
    {"golfcourse", golfcourse},
    {"harbor", harbor},
    {"intersection", intersection},
    {"mediumresidential", mediumresidential},
    {"mobilehomepark", mobilehomepark},
    {"overpass", overpass},
    {"parkinglot", parkinglot},
    {"river", river},
    {"runway", runway},
    {"sparseresidential", sparseresidential},
    {"storagetanks", storagetanks},
    {"tenniscourt", tenniscourt},
}};

}  // namespace

ImageDataset generate_scenes(Split split, std::uint64_t seed, std::int64_t count) {
  if (count < 0) {
    throw std::invalid_argument("generated scenes: count is " + std::to_string(count) + ", expected 0 or more");
  }
  ImageDataset dataset;
  dataset.images = Tensor::empty(Shape{count, SceneCanvas::kSide, SceneCanvas::kSide, 3}, DType::UInt8);
  dataset.labels = Tensor::empty(Shape{count}, DType::Int64);
  auto* pixels = dataset.images.data<std::uint8_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<std::size_t>(i) % kScenes.size();
    SceneCanvas canvas(tensor::sample_key(seed, split == Split::Train ? 0 : 1, static_cast<std::uint64_t>(i)));
    kScenes[label].paint(canvas);
    canvas.finish(canvas.between(4, 18), 15);
    pixels = std::copy(canvas.pixels().begin(), canvas.pixels().end(), pixels);
    dataset.labels.data<std::int64_t>()[i] = static_cast<std::int64_t>(label);
  }
  dataset.name = std::string("generated scenes ") + name(split);
  dataset.generated = true;
  dataset.classes = static_cast<int>(kScenes.size());
  for (const Scene& scene : kScenes) dataset.class_names.emplace_back(scene.name);
  return dataset;
}

ImageDataset generate_scenes(Split split) {
  return generate_scenes(split, 0, split == Split::Train ? kScenesTrainCount : kScenesTestCount);
}

}  // namespace tutti::trainer
