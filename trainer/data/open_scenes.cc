// Land, water and sports grounds.
#include <tutti/trainer/data/scene_painters.h>
#include <tutti/trainer/data/scene_parts.h>

#include <algorithm>

namespace tutti::trainer::scenes {

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

void chaparral(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kSand, 30), canvas.near(kSoil, 25), 8);
  for (int i = canvas.between(70, 110); i > 0; --i) {
    canvas.disc(canvas.anywhere(), canvas.between(kPx, 2 * kPx), canvas.near(kScrub, 25));
  }
}

void forest(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kLeaves, 20), canvas.near(kGrass, 25), 4);
  for (int i = canvas.between(90, 140); i > 0; --i) {
    canvas.disc(canvas.anywhere(), canvas.between(2 * kPx, 4 * kPx), canvas.near(kLeaves, 30));
  }
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

}  // namespace tutti::trainer::scenes
