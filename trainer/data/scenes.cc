#include <tutti/trainer/data/scene_painters.h>
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

struct Scene {
  const char* name;
  void (*paint)(SceneCanvas&);
};

constexpr std::array<Scene, 21> kScenes = {{
    {"agricultural", scenes::agricultural},
    {"airplane", scenes::airplane},
    {"baseballdiamond", scenes::baseballdiamond},
    {"beach", scenes::beach},
    {"buildings", scenes::buildings},
    {"chaparral", scenes::chaparral},
    {"denseresidential", scenes::denseresidential},
    {"forest", scenes::forest},
    {"freeway", scenes::freeway},
    {"golfcourse", scenes::golfcourse},
    {"harbor", scenes::harbor},
    {"intersection", scenes::intersection},
    {"mediumresidential", scenes::mediumresidential},
    {"mobilehomepark", scenes::mobilehomepark},
    {"overpass", scenes::overpass},
    {"parkinglot", scenes::parkinglot},
    {"river", scenes::river},
    {"runway", scenes::runway},
    {"sparseresidential", scenes::sparseresidential},
    {"storagetanks", scenes::storagetanks},
    {"tenniscourt", scenes::tenniscourt},
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
