#include <sys/stat.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/image_folder.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>
#include <unordered_map>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kExtensions = {".png", ".jpg", ".jpeg", ".tif", ".tiff"};

// The names in a folder, in the order of their bytes, without hidden ones and what macOS adds to archives.
std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code status;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, status), end; !status && entry != end; entry.increment(status)) {
    const std::string name = entry->path().filename().string();
    if (name.front() != '.' && name != "__MACOSX") names.push_back(name);
  }
  if (status) throw DataError(folder.string() + ": cannot be read: " + status.message());
  std::sort(names.begin(), names.end());
  return names;
}

bool is_folder(const fs::path& path) {
  std::error_code status;
  return fs::is_directory(path, status);
}

bool has_sub_folders(const fs::path& folder) {
  if (!is_folder(folder)) return false;
  const auto names = names_in(folder);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return is_folder(folder / name); });
}

bool has_picture_extension(const std::string& name) {
  std::string extension = fs::path(name).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

// A file that is not there (a link to nowhere) has size 0; decoding will say what is wrong with it.
ImageFile stated(const fs::path& folder, const std::string& path, int label) {
  struct stat status {};
  if (::stat((folder / path).c_str(), &status) != 0) return {.path = path, .label = label};
  return {.path = path,
          .label = label,
          .size = static_cast<std::uint64_t>(status.st_size),
          .modified_ns = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

// Folders of other data sets often hold the classes once for each split.
void refuse_splits(const fs::path& folder, const std::vector<std::string>& names) {
  const auto has = [&](const char* name) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (!has("train") || !has_sub_folders(folder / "train")) return;
  for (const char* other : {"test", "val", "valid", "validation"}) {
    if (has(other) && has_sub_folders(folder / other))
      throw DataError(folder.string() + ": holds train/ and " + other +
                      "/ instead of a folder for each class; put each class's pictures into one folder, and list those "
                      "of " +
                      other + "/ in a file for --test-list");
  }
}

void list_class(ImageFolder& result, const std::string& name) {
  const auto label = static_cast<int>(result.classes.size());
  const std::size_t before = result.files.size();
  for (const std::string& file : names_in(result.folder / name)) {
    const std::string path = name + "/" + file;
    if (has_picture_extension(file) && !is_folder(result.folder / path)) {
      result.files.push_back(stated(result.folder, path, label));
    } else {
      result.ignored.push_back(path);
    }
  }
  if (result.files.size() == before) {
    throw DataError((result.folder / name).string() +
                    ": this class has no pictures (.png, .jpg, .jpeg, .tif, .tiff); add some or remove the folder");
  }
  result.classes.push_back(name);
}

// `root` itself, or where the published archive keeps its classes below it.
fs::path classes_below(const fs::path& root) {
  for (const char* below : {"UCMerced_LandUse/Images", "Images"}) {
    if (has_sub_folders(root / below)) return root / below;
  }
  return root;
}

bool ends_in_4_or_9(const std::string& path) {
  const std::string stem = fs::path(path).stem().string();
  return !stem.empty() && (stem.back() == '4' || stem.back() == '9');
}

void check_split(const ImageFolder& folder, const std::vector<bool>& test, const std::string& how) {
  const auto tests = static_cast<std::size_t>(std::count(test.begin(), test.end(), true));
  if (tests != 0 && tests != test.size()) return;
  throw DataError(folder.folder.string() + ": of its " + std::to_string(test.size()) + " pictures " +
                  (tests == 0 ? "none is for testing" : "none is left for training") + " (" + how + ")");
}

}  // namespace

ImageFolder list_image_folder(const fs::path& folder) {
  std::error_code status;
  if (!fs::exists(folder, status)) throw DataError(folder.string() + ": no such folder");
  if (!is_folder(folder))
    throw DataError(folder.string() + ": is not a folder; expected one with a folder for each class");
  ImageFolder result{.folder = folder, .classes = {}, .files = {}, .ignored = {}};
  const std::vector<std::string> names = names_in(folder);
  refuse_splits(folder, names);
  for (const std::string& name : names) {
    if (is_folder(folder / name)) {
      list_class(result, name);
    } else {
      result.ignored.push_back(name);
    }
  }
  if (result.classes.empty()) {
    throw DataError(folder.string() + ": holds no folders; expected one for each class, with that class's pictures");
  }
  return result;
}

std::vector<fs::path> image_folder_places(const DataSearch& search) {
  if (!search.explicit_path.empty()) return {search.explicit_path};
  return search.usual_places("mercer");
}

std::optional<fs::path> find_image_folder(const DataSearch& search) {
  for (const fs::path& place : image_folder_places(search)) {
    const fs::path folder = classes_below(place);
    if (has_sub_folders(folder)) return folder;
  }
  if (!search.explicit_path.empty()) list_image_folder(search.explicit_path);  // throws what is wrong with it
  return std::nullopt;
}

namespace {

std::vector<bool> test_files_by_rule(const ImageFolder& folder) {
  std::vector<bool> test;
  for (const ImageFile& file : folder.files) test.push_back(ends_in_4_or_9(file.path));
  check_split(folder, test, "those whose number ends in 4 or 9 are; name others with --test-list FILE");
  return test;
}

std::vector<bool> test_files_by_list(const ImageFolder& folder, const fs::path& list) {
  std::ifstream lines(list);
  if (!lines) throw DataError(list.string() + ": cannot be opened: " + std::strerror(errno));
  std::unordered_map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < folder.files.size(); ++i) index[folder.files[i].path] = i;
  std::vector<bool> test(folder.files.size());
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    const auto found = index.find(line);
    const std::string place = list.string() + " line " + std::to_string(number) + ": " + line;
    if (found == index.end()) {
      throw DataError(place + " is no picture of " + folder.folder.string() + "; expected a path like " +
                      folder.files.front().path);
    }
    if (test[found->second]) throw DataError(place + " stands there twice");
    test[found->second] = true;
  }
  if (lines.bad()) throw DataError(list.string() + ": cannot be read: " + std::strerror(errno));
  check_split(folder, test, "by the list " + list.string());
  return test;
}

}  // namespace

std::vector<bool> test_files(const ImageFolder& folder, const fs::path& list) {
  if (list.empty()) return test_files_by_rule(folder);
  return list == kAllFiles ? std::vector<bool>(folder.files.size(), true) : test_files_by_list(folder, list);
}

}  // namespace tutti::trainer
