// Image folders: FOLDER/CLASS/NAME.{png,jpg,jpeg,tif,tiff}, the layout that torchvision's ImageFolder reads.
//
// Classes are the sub-folders in the order of their names' bytes, and so are the files of each. Names that begin with a
// dot are left out silently, other files and deeper folders are listed as ignored. A picture's content decides its
// format, not its name. All functions throw DataError naming the path.
#pragma once

#include <tutti/trainer/data/data_search.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tutti::trainer {

struct ImageFile {
  std::string path;  // "beach/beach07.png": relative to the folder
  int label = 0;
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;
};

struct ImageFolder {
  std::filesystem::path folder;
  std::vector<std::string> classes;
  std::vector<ImageFile> files;
  std::vector<std::string> ignored;  // relative, too
};

/// Reads names, sizes and times; opens no picture. Throws for a folder that is missing or has no classes, and for a
/// class without pictures.
ImageFolder list_image_folder(const std::filesystem::path& folder);

/// The folder of UC Merced, or of any other image folder. An explicit path is that folder, or one that holds the
/// archive's UCMerced_LandUse/Images or Images; DataError if it is none. Else $TUTTI_DATA/mercer, ./data/mercer,
/// `<cache>/tutti/mercer`, the first that has sub-folders; empty when there is none.
std::optional<std::filesystem::path> find_image_folder(const DataSearch& search);

/// Where find_image_folder looks, in order.
std::vector<std::filesystem::path> image_folder_places(const DataSearch& search);

/// In place of a list: every picture is for training and for testing.
inline constexpr char kAllFiles[] = "all";

/// For each file: is it for testing? By `list`, one relative path a line; each must exist, and none may stand there
/// twice. Without one: where the digits before the extension end in 4 or 9 (20 of UC Merced's 100). Throws when that
/// leaves no picture to test or, unless `list` is kAllFiles, none to train on.
std::vector<bool> test_files(const ImageFolder& folder, const std::filesystem::path& list);

}  // namespace tutti::trainer
