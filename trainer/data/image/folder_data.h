// An image folder as training and test sets: listed, decoded (or read from the cache), resized, split.
//
// Every picture becomes size x size pixels, stretched if it is not square. The result depends on the folder's content
// only: the same on all ranks and for any number of threads (tensor/thread_pool.h).
#pragma once

#include <tutti/trainer/data/dataset.h>
#include <tutti/trainer/data/image/image_folder.h>

#include <filesystem>
#include <string>
#include <vector>

namespace tutti::trainer {

struct FolderOptions {
  std::filesystem::path folder{};
  std::int64_t size = 64;             // pixels of a side
  bool skip_bad = false;              // leave out pictures that cannot be decoded; else they are an error
  std::filesystem::path test_list{};  // empty: the rule of image_folder.h
  std::filesystem::path cache_dir{};  // empty: no cache
};

struct BadImage {
  std::string path;    // relative to the folder
  std::string reason;  // a predicate: "is empty (0 bytes)"
};

struct FolderData {
  ImageDataset train{};
  ImageDataset test{};
  std::vector<BadImage> skipped{};
  std::vector<std::string> ignored{};
  std::string cache_note{};  // what is wrong with the cache; empty when nothing is
};

/// Throws DataError for a folder that cannot be used, and unless skip_bad for bad pictures: their number, and path and
/// reason of the first few. With skip_bad also when a class has none left. A cache that is damaged or cannot be written
/// costs time, and a note.
FolderData load_image_folder(const FolderOptions& options);

/// Decodes every picture, keeping none; in the folder's order. For `tutti data verify`.
std::vector<BadImage> find_bad_images(const ImageFolder& folder);

}  // namespace tutti::trainer
