// MNIST: where it is, loading it, and checking the files.
//
// A folder "holds MNIST" when the four IDX files (.gz or plain) lie in it or in its MNIST/raw/ (torchvision's layout).
// Fashion-MNIST and other sets of the same form load as well.
#pragma once

#include <tutti/trainer/data/data_search.h>
#include <tutti/trainer/data/dataset.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tutti::trainer {

/// The folders to look in, in order. An explicit path is the only one: --data means that folder or its mnist/, and no
/// other. Else $TUTTI_DATA, $TUTTI_DATA/mnist, ./data/mnist, `<cache>/tutti/mnist`; each is followed by its MNIST/raw.
std::vector<std::filesystem::path> mnist_folders(const DataSearch& search);

/// The first of those folders that holds any of the four files; a folder with only some of them is returned too, so
/// that loading names what is missing instead of passing over it. Empty when there is none: the caller falls back to
/// generated digits. Throws DataError, naming the path and the files looked for, when there is none below an explicit
/// path.
std::optional<std::filesystem::path> find_mnist(const DataSearch& search);

/// Reads one split from a folder that find_mnist returned. Throws DataError (idx.h) for any damage.
ImageDataset load_mnist(const std::filesystem::path& folder, Split split);

/// What is known of one of the four files; for `tutti data verify`.
struct MnistFinding {
  std::string file;  // "train-images-idx3-ubyte.gz": the name found, or the one that was expected
  bool present = false;
  std::uint64_t bytes = 0;
  std::optional<bool> gzip_ok;  // whole and undamaged; empty for a plain file
  std::string md5;              // of the file as it lies there
  std::string expected_md5;     // of the published .gz; empty for a plain file, whose md5 nobody publishes
  std::int64_t count = 0;       // images or labels read
  std::int64_t expected_count = 0;
  std::string error;  // one sentence; empty when the file is readable

  /// Readable and complete, with the expected count.
  bool readable() const { return present && error.empty() && count == expected_count; }
  /// Byte for byte the published file, where that can be told.
  bool published() const { return expected_md5.empty() || md5 == expected_md5; }
};

/// Findings in the order train images, train labels, test images, test labels. Throws nothing for damaged files; they
/// are what it reports.
std::vector<MnistFinding> verify_mnist(const std::filesystem::path& folder);

}  // namespace tutti::trainer
