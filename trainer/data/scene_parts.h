// What several generated scenes are made of: colours, ground, trees, cars, houses and roads. Internal to trainer/data.
//
// Each draws from the canvas's random numbers, so the order of calls is part of a picture.
#pragma once

#include <tutti/trainer/data/scene_canvas.h>

namespace tutti::trainer::scenes {

inline constexpr int kPx = SceneCanvas::kUnit;
inline constexpr int kRightAngle = SceneCanvas::kDirections / 4;
inline constexpr Colour kGrass{95, 120, 70}, kSoil{150, 125, 95}, kSand{205, 190, 150}, kWater{60, 90, 110};
inline constexpr Colour kLeaves{55, 80, 50}, kAsphalt{120, 120, 120}, kRoof{170, 140, 125}, kWhite{225, 225, 220};
inline constexpr Colour kShadow{45, 45, 50}, kScrub{110, 110, 75};

inline int any_direction(SceneCanvas& canvas) { return canvas.between(0, SceneCanvas::kDirections - 1); }
inline Spot near_middle(SceneCanvas& canvas) { return canvas.anywhere(20 * kPx); }

void any_ground(SceneCanvas& canvas);
void trees(SceneCanvas& canvas, int least, int most);
void car(SceneCanvas& canvas, Spot place, int direction);
void house(SceneCanvas& canvas, Spot place, int direction, int half_length, int half_width);
/// In rows: one in `percent` of the cells of a turned grid.
void houses(SceneCanvas& canvas, int spacing, int half_length, int half_width, int percent);
/// With one to four cars.
void road(SceneCanvas& canvas, Spot through, int direction, int half_width);

}  // namespace tutti::trainer::scenes
