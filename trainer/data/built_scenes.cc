// Buildings and traffic.
#include <tutti/trainer/data/scene_painters.h>
#include <tutti/trainer/data/scene_parts.h>

namespace tutti::trainer::scenes {

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

void buildings(SceneCanvas& canvas) {
  canvas.ground(canvas.near(kAsphalt, 35), canvas.near(kAsphalt, 35), 16);
  const int direction = any_direction(canvas);
  for (int i = canvas.between(2, 3); i > 0; --i) {
    const Spot place = canvas.anywhere(12 * kPx);
    house(canvas, place, direction, canvas.between(11 * kPx, 18 * kPx), canvas.between(8 * kPx, 12 * kPx));
  }
}

void denseresidential(SceneCanvas& canvas) {
  any_ground(canvas);
  houses(canvas, 11 * kPx, 4 * kPx, 3 * kPx, 92);
  trees(canvas, 3, 8);
}

void freeway(SceneCanvas& canvas) {
  any_ground(canvas);
  const int direction = any_direction(canvas);
  const Spot through = near_middle(canvas);
  road(canvas, SceneCanvas::moved(through, direction + kRightAngle, 8 * kPx), direction, 5 * kPx);
  road(canvas, SceneCanvas::moved(through, direction + kRightAngle, -8 * kPx), direction, 5 * kPx);
  trees(canvas, 0, 5);
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

}  // namespace tutti::trainer::scenes
