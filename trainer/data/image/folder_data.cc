#include <tutti/comm/base/printable_utf8.h>
#include <tutti/tensor/thread_pool.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/folder_data.h>
#include <tutti/trainer/data/image/image.h>
#include <tutti/trainer/data/image/image_cache.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <new>

namespace tutti::trainer {
namespace {

using tensor::DType;
using tensor::Shape;
using tensor::Tensor;

constexpr std::size_t kMostNamed = 5;  // bad pictures in one error

// Calls `work` with 0 ... count - 1, in any order, on the threads of the pool.
void on_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  tensor::parallel_for(static_cast<std::int64_t>(count), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) work(static_cast<std::size_t>(i));
  });
}

// What is wrong with the picture; empty when `use` got it.
std::string decode_one(const std::filesystem::path& folder, const ImageFile& file,
                       const std::function<void(Image)>& use) {
  const std::string path = (folder / file.path).string();
  try {
    use(read_image(path));
    return "";
  } catch (const DataError& error) {
    const std::string text = error.what();
    return text.rfind(path + ": ", 0) == 0 ? text.substr(path.size() + 2) : text;
  } catch (const std::bad_alloc&) {
    return "needs more memory than there is";
  }
}

// Decodes the pictures that `decoded` does not have yet; reasons for those that cannot be, by file.
std::vector<std::string> decode_missing(const ImageFolder& folder, std::int64_t size, DecodedFolder& decoded) {
  std::vector<std::string> reasons(folder.files.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < folder.files.size(); ++i) {
    if (!decoded.decoded[i]) missing.push_back(i);
  }
  auto* const pixels = decoded.images.data<std::uint8_t>();
  const auto row = static_cast<std::size_t>(size * size * 3);
  on_threads(missing.size(), [&](std::size_t k) {
    const std::size_t i = missing[k];
    std::uint8_t* const target = pixels + i * row;
    reasons[i] = decode_one(folder.folder, folder.files[i], [&](Image image) {
      const Image small = resize(std::move(image), size, size);
      std::copy(small.pixels.begin(), small.pixels.end(), target);
    });
    if (!reasons[i].empty()) std::fill_n(target, row, std::uint8_t{0});
  });
  for (const std::size_t i : missing) decoded.decoded[i] = reasons[i].empty();
  return reasons;
}

DecodedFolder nothing_decoded(const ImageFolder& folder, std::int64_t size) {
  const auto count = static_cast<std::int64_t>(folder.files.size());
  return {.images = Tensor::empty(Shape{count, size, size, 3}, DType::UInt8),
          .decoded = std::vector<bool>(folder.files.size(), false)};
}

std::vector<BadImage> bad_images(const ImageFolder& folder, const std::vector<std::string>& reasons) {
  std::vector<BadImage> bad;
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (!reasons[i].empty()) bad.push_back({.path = folder.files[i].path, .reason = reasons[i]});
  }
  return bad;
}

// From the cache, from the files, or from both: pictures that could not be decoded last time are tried again.
DecodedFolder decoded_folder(const ImageFolder& folder, const FolderOptions& options, FolderData& result) {
  const bool caching = !options.cache_dir.empty();
  const auto file = caching ? image_cache_file(options.cache_dir, folder, options.size) : std::filesystem::path();
  std::optional<DecodedFolder> cached;
  try {
    if (caching) cached = read_image_cache(file, folder, options.size);
  } catch (const DataError& error) {
    result.cache_note = std::string(error.what()) + "; the pictures are decoded again";
  }
  DecodedFolder decoded = cached ? std::move(*cached) : nothing_decoded(folder, options.size);
  const auto before = decoded.decoded;
  result.skipped = bad_images(folder, decode_missing(folder, options.size, decoded));
  const bool news = !cached || before != decoded.decoded;
  if (caching && news && (result.skipped.empty() || options.skip_bad)) {
    try {
      write_image_cache(file, folder, options.size, decoded);
    } catch (const DataError& error) {
      result.cache_note += (result.cache_note.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  return decoded;
}

void refuse_bad(const ImageFolder& folder, const std::vector<BadImage>& bad) {
  std::string text = std::to_string(bad.size()) + " of " + std::to_string(folder.files.size()) +
                     " pictures cannot be used; mend or remove them, or leave them out with --skip-bad-images: ";
  for (std::size_t i = 0; i < std::min(bad.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : "; ") + (folder.folder / bad[i].path).string() + " " + bad[i].reason;
  }
  if (bad.size() > kMostNamed) {
    text += "; and " + std::to_string(bad.size() - kMostNamed) + " more (tutti data verify --data " +
            folder.folder.string() + " lists all)";
  }
  throw DataError(text);
}

void check_classes(const ImageFolder& folder, const std::vector<bool>& decoded) {
  std::vector<int> count(folder.classes.size());
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    if (decoded[i]) ++count[static_cast<std::size_t>(folder.files[i].label)];
  }
  const auto empty = std::find(count.begin(), count.end(), 0);
  if (empty == count.end()) return;
  throw DataError((folder.folder / folder.classes[static_cast<std::size_t>(empty - count.begin())]).string() +
                  ": none of this class's pictures can be used; mend them or remove the folder");
}

ImageDataset select(const ImageFolder& folder, const DecodedFolder& decoded, const std::vector<bool>& test,
                    Split split) {
  const bool all = std::find(test.begin(), test.end(), false) == test.end();
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < folder.files.size(); ++i) {
    if (decoded.decoded[i] && (all || test[i] == (split == Split::Test))) chosen.push_back(i);
  }
  if (chosen.empty()) {
    throw DataError(folder.folder.string() + ": none of the pictures for " +
                    (split == Split::Test ? "testing" : "training") + " can be used");
  }
  const std::int64_t size = decoded.images.shape()[1];
  const auto count = static_cast<std::int64_t>(chosen.size());
  ImageDataset dataset;
  dataset.images = Tensor::empty(Shape{count, size, size, 3}, DType::UInt8);
  dataset.labels = Tensor::empty(Shape{count}, DType::Int64);
  dataset.name =
      comm::printable_utf8(std::filesystem::weakly_canonical(folder.folder).filename().string()) + " " + name(split);
  dataset.classes = static_cast<int>(folder.classes.size());
  for (const std::string& name_of_class : folder.classes)
    dataset.class_names.push_back(comm::printable_utf8(name_of_class));
  const auto row = static_cast<std::size_t>(size * size * 3);
  const auto* const from = decoded.images.data<std::uint8_t>();
  auto* to = dataset.images.data<std::uint8_t>();
  auto* label = dataset.labels.data<std::int64_t>();
  for (const std::size_t i : chosen) {
    to = std::copy_n(from + i * row, row, to);
    *label++ = folder.files[i].label;
  }
  return dataset;
}

}  // namespace

FolderData load_image_folder(const FolderOptions& options) {
  const ImageFolder folder = list_image_folder(options.folder);
  const std::vector<bool> test = test_files(folder, options.test_list);
  FolderData result;
  const DecodedFolder decoded = decoded_folder(folder, options, result);
  if (!result.skipped.empty() && !options.skip_bad) refuse_bad(folder, result.skipped);
  check_classes(folder, decoded.decoded);
  result.train = select(folder, decoded, test, Split::Train);
  result.test = select(folder, decoded, test, Split::Test);
  result.ignored = folder.ignored;
  return result;
}

std::vector<BadImage> find_bad_images(const ImageFolder& folder) {
  std::vector<std::string> reasons(folder.files.size());
  on_threads(folder.files.size(),
             [&](std::size_t i) { reasons[i] = decode_one(folder.folder, folder.files[i], [](const Image&) {}); });
  return bad_images(folder, reasons);
}

}  // namespace tutti::trainer
