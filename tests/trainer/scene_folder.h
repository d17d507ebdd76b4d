// A small folder of pictures in 21 classes, so that whole runs take little time and need no real data.
#pragma once

#include <png.h>
#include <tutti/trainer/data/scenes.h>
#include <tutti/trainer/task.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace tutti::trainer {

/// Writes `per_class` generated scenes of each class as CLASS/CLASS00.png and so on.
inline void write_scene_folder(const std::filesystem::path& folder, int per_class) {
  const ImageDataset scenes = generate_scenes(Split::Train, 0, std::int64_t{21} * per_class);
  for (std::int64_t i = 0; i < scenes.count(); ++i) {
    const std::string& name = scenes.class_names[static_cast<std::size_t>(i % 21)];
    std::filesystem::create_directories(folder / name);
    const std::string number = (i / 21 < 10 ? "0" : "") + std::to_string(i / 21);
    png_image image{};
    image.version = PNG_IMAGE_VERSION;
    image.width = image.height = 64;
    image.format = PNG_FORMAT_RGB;
    const auto* const pixels = scenes.images.data<std::uint8_t>() + i * 64 * 64 * 3;
    const std::string path = folder / name / (name + number + ".png");
    if (png_image_write_to_file(&image, path.c_str(), 0, pixels, 0, nullptr) == 0) {
      throw std::runtime_error("cannot write " + path + ": " + image.message);
    }
  }
}

/// An epoch of `model` on 84 small pictures, which are written to `folder`; 21 are for testing.
inline TrainOptions small_mercer(const std::filesystem::path& folder, const std::string& model) {
  write_scene_folder(folder, 5);
  TrainOptions options = default_options("mercer");
  options.data = folder;
  options.model = model;
  options.image_size = 16;
  options.use_cache = false;
  options.epochs = 1;
  return options;
}

}  // namespace tutti::trainer
