#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/file_source.h>
#include <tutti/trainer/data/idx.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace tutti::trainer {
namespace {

using tensor::DType;
using tensor::Shape;
using tensor::Tensor;

constexpr std::uint32_t kUnsignedByte = 0x08;

[[noreturn]] void fail(const FileSource& source, const std::string& what) {
  throw DataError(source.path().string() + ": " + what);
}

std::string hex(std::uint32_t value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", value);
  return text.data();
}

std::uint32_t read_u32(FileSource& source, const char* field) {
  std::array<unsigned char, 4> bytes{};
  const std::size_t got = source.read(bytes.data(), bytes.size());
  if (got < bytes.size()) {
    fail(source, std::string("ends inside its header: ") + std::to_string(got) + " of the 4 bytes of field '" + field +
                     "' are there");
  }
  return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 | std::uint32_t{bytes[2]} << 8 | bytes[3];
}

// The extents, after checking the magic number. `what` says in words what the file should hold.
template <std::size_t kRank>
std::array<std::int64_t, kRank> read_header(FileSource& source, const char* what) {
  const std::uint32_t expected = kUnsignedByte << 8 | static_cast<std::uint32_t>(kRank);
  const std::uint32_t magic = read_u32(source, "magic");
  if (magic != expected) {
    fail(source, "field 'magic' is " + hex(magic) + ", expected " + hex(expected) + " (" + what + ")");
  }
  std::array<std::int64_t, kRank> extents{};
  for (std::size_t axis = 0; axis < kRank; ++axis) {
    extents[axis] = read_u32(source, ("extent " + std::to_string(axis)).c_str());
  }
  return extents;
}

// Refuses a count that the file cannot hold, before memory is taken for it.
void check_fits(const FileSource& source, std::int64_t count, std::int64_t bytes_each, const char* what) {
  const std::uint64_t limit = source.largest_content();
  if (static_cast<std::uint64_t>(count) > limit / static_cast<std::uint64_t>(bytes_each)) {
    fail(source, "field 'extent 0' says " + std::to_string(count) + " " + what + " of " + std::to_string(bytes_each) +
                     " bytes, but a file of its size holds at most " + std::to_string(limit) + " bytes");
  }
}

// Exactly `nbytes` more bytes and then the end.
void read_elements(FileSource& source, void* target, std::int64_t nbytes) {
  const auto expected = static_cast<std::size_t>(nbytes);
  const std::size_t got = source.read(target, expected);
  if (got < expected) {
    fail(source, "holds " + std::to_string(got) + " bytes of elements, expected " + std::to_string(nbytes) +
                     " by its header; the file is cut short");
  }
  unsigned char extra = 0;
  if (source.read(&extra, 1) != 0) {
    fail(source, "has bytes after the " + std::to_string(nbytes) + " bytes of elements that its header announces");
  }
}

}  // namespace

Tensor read_idx_images(const std::filesystem::path& path, std::int64_t height, std::int64_t width) {
  FileSource source(path);
  const auto extents = read_header<3>(source, "unsigned bytes, 3 dimensions: images");
  if (extents[1] != height || extents[2] != width) {
    fail(source, "fields 'extent 1' and 'extent 2' are " + std::to_string(extents[1]) + " x " +
                     std::to_string(extents[2]) + ", expected images of " + std::to_string(height) + " x " +
                     std::to_string(width));
  }
  check_fits(source, extents[0], height * width, "images");
  Tensor images = Tensor::empty(Shape{extents[0], height, width, 1}, DType::UInt8);
  read_elements(source, images.raw(), extents[0] * height * width);
  return images;
}

Tensor read_idx_labels(const std::filesystem::path& path, std::int64_t expected_count, int classes) {
  FileSource source(path);
  const auto extents = read_header<1>(source, "unsigned bytes, 1 dimension: labels");
  if (extents[0] != expected_count) {
    fail(source, "field 'extent 0' is " + std::to_string(extents[0]) + " labels, expected " +
                     std::to_string(expected_count) + ", one for each image");
  }
  check_fits(source, extents[0], 1, "labels");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(extents[0]));
  read_elements(source, bytes.data(), extents[0]);
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [&](std::uint8_t label) { return label >= classes; });
  if (wrong != bytes.end()) {
    fail(source, "label " + std::to_string(wrong - bytes.begin()) + " is " + std::to_string(*wrong) +
                     ", expected 0 to " + std::to_string(classes - 1));
  }
  Tensor labels = Tensor::empty(Shape{extents[0]}, DType::Int64);
  std::copy(bytes.begin(), bytes.end(), labels.data<std::int64_t>());
  return labels;
}

}  // namespace tutti::trainer
