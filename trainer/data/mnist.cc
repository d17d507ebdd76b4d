#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/data/idx.h>
#include <tutti/trainer/data/mnist.h>

#include <array>
#include <string_view>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSide = 28;
constexpr int kClasses = 10;

struct KnownFile {
  std::string_view name;
  std::string_view gz_md5;  // as torchvision publishes it
  std::int64_t count;
};

// Images and labels of the training set, then of the test set.
constexpr std::array<KnownFile, 4> kFiles = {{
    {"train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873", 60000},
    {"train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432", 60000},
    {"t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3", 10000},
    {"t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c", 10000},
}};

// The file, plain or packed, with a dash or a dot before "idx"; empty if there is none.
fs::path existing_file(const fs::path& folder, std::string_view file) {
  std::string dotted(file);
  dotted[file.find("-idx")] = '.';
  for (const std::string& name : {std::string(file), std::string(file) + ".gz", dotted, dotted + ".gz"}) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name, ignored)) return folder / name;
  }
  return {};
}

fs::path required_file(const fs::path& folder, std::string_view file) {
  fs::path path = existing_file(folder, file);
  if (path.empty()) {
    throw DataError((folder / file).string() + ".gz: is missing (and so is the unpacked " + std::string(file) +
                    "); the folder holds only part of MNIST");
  }
  return path;
}

bool holds_any(const fs::path& folder) {
  for (const KnownFile& file : kFiles) {
    if (!existing_file(folder, file.name).empty()) {
      return true;
    }
  }
  return false;
}

[[noreturn]] void fail_explicit(const fs::path& path) {
  std::string text = path.string();
  std::error_code status;
  if (!fs::exists(path, status)) {
    text += ": no such folder; looked for MNIST's files there:";
  } else if (!fs::is_directory(path, status)) {
    text += ": is not a folder; expected one that holds MNIST's files:";
  } else {
    text += ": holds none of MNIST's files (nor do its mnist/ and MNIST/raw/); looked for:";
  }
  for (const KnownFile& file : kFiles) {
    text.append(" ").append(file.name).append("[.gz]");
  }
  throw DataError(text);
}

// Reads the file as its kind demands, for the errors that this brings to light.
std::int64_t read_count(const fs::path& path, const KnownFile& file) {
  if (file.name.find("images") != std::string_view::npos) {
    return read_idx_images(path, kSide, kSide).shape()[0];
  }
  return read_idx_labels(path, file.count, kClasses).numel();
}

MnistFinding verify_file(const fs::path& folder, const KnownFile& file) {
  MnistFinding finding;
  finding.expected_count = file.count;
  const fs::path path = existing_file(folder, file.name);
  finding.present = !path.empty();
  if (!finding.present) {
    finding.file = std::string(file.name) + ".gz";
    finding.expected_md5 = file.gz_md5;
    finding.error = (folder / finding.file).string() + ": is missing";
    return finding;
  }
  finding.file = path.filename().string();
  const bool gzip = path.extension() == ".gz";
  try {
    finding.bytes = fs::file_size(path);
    finding.expected_md5 = gzip ? file.gz_md5 : "";
    finding.md5 = digest_of_file(path, Digest::Kind::Md5);
    if (gzip) {
      finding.gzip_ok = false;
      check_gzip(path);
      finding.gzip_ok = true;
    }
    finding.count = read_count(path, file);
  } catch (const std::exception& error) {
    finding.error = error.what();
  }
  return finding;
}

}  // namespace

std::vector<fs::path> mnist_folders(const DataSearch& search) {
  std::vector<fs::path> roots{search.explicit_path, search.explicit_path / "mnist"};
  if (search.explicit_path.empty()) {
    roots = search.usual_places("mnist");
    if (!search.tutti_data.empty()) roots.insert(roots.begin(), search.tutti_data);
  }
  std::vector<fs::path> folders;
  for (const fs::path& root : roots) folders.insert(folders.end(), {root, root / "MNIST" / "raw"});
  return folders;
}

std::optional<fs::path> find_mnist(const DataSearch& search) {
  for (const fs::path& folder : mnist_folders(search)) {
    if (holds_any(folder)) {
      return folder;
    }
  }
  if (!search.explicit_path.empty()) {
    fail_explicit(search.explicit_path);
  }
  return std::nullopt;
}

ImageDataset load_mnist(const fs::path& folder, Split split) {
  const std::size_t first = split == Split::Train ? 0 : 2;
  const fs::path images = required_file(folder, kFiles[first].name);
  const fs::path labels = required_file(folder, kFiles[first + 1].name);
  ImageDataset dataset;
  dataset.images = read_idx_images(images, kSide, kSide);
  dataset.labels = read_idx_labels(labels, dataset.images.shape()[0], kClasses);
  dataset.name = std::string("mnist ") + name(split);
  dataset.classes = kClasses;
  return dataset;
}

std::vector<MnistFinding> verify_mnist(const fs::path& folder) {
  std::vector<MnistFinding> findings;
  for (const KnownFile& file : kFiles) {
    findings.push_back(verify_file(folder, file));
  }
  return findings;
}

}  // namespace tutti::trainer
