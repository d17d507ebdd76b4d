#include <tutti/trainer/data/scene_parts.h>

namespace tutti::trainer::scenes {

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

void road(SceneCanvas& canvas, Spot through, int direction, int half_width) {
  canvas.band(through, direction, half_width, canvas.near(kAsphalt, 25));
  canvas.band(through, direction, kPx / 2, canvas.near(kWhite, 15));
  for (int i = canvas.between(1, 4); i > 0; --i) {
    const Spot lane =
        SceneCanvas::moved(through, direction + kRightAngle, canvas.chance(50) ? half_width / 2 : -half_width / 2);
    car(canvas, SceneCanvas::moved(lane, direction, canvas.between(-30 * kPx, 30 * kPx)), direction);
  }
}

}  // namespace tutti::trainer::scenes
