// One function for each class of generated scenes: paints one on an empty canvas. Internal to trainer/data.
#pragma once

#include <tutti/trainer/data/scene_canvas.h>

namespace tutti::trainer::scenes {

// open_scenes.cc
void agricultural(SceneCanvas& canvas);
void baseballdiamond(SceneCanvas& canvas);
void beach(SceneCanvas& canvas);
void chaparral(SceneCanvas& canvas);
void forest(SceneCanvas& canvas);
void golfcourse(SceneCanvas& canvas);
void river(SceneCanvas& canvas);
void tenniscourt(SceneCanvas& canvas);

// built_scenes.cc
void airplane(SceneCanvas& canvas);
void buildings(SceneCanvas& canvas);
void denseresidential(SceneCanvas& canvas);
void freeway(SceneCanvas& canvas);
void harbor(SceneCanvas& canvas);
void intersection(SceneCanvas& canvas);
void mediumresidential(SceneCanvas& canvas);
void mobilehomepark(SceneCanvas& canvas);
void overpass(SceneCanvas& canvas);
void parkinglot(SceneCanvas& canvas);
void runway(SceneCanvas& canvas);
void sparseresidential(SceneCanvas& canvas);
void storagetanks(SceneCanvas& canvas);

}  // namespace tutti::trainer::scenes
