#include <tutti/comm/base/format.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/image/image.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace tutti::trainer {
namespace {

bool begins_with(std::span<const std::uint8_t> file, std::string_view signature) {
  return file.size() >= signature.size() && std::memcmp(file.data(), signature.data(), signature.size()) == 0;
}

bool is_tiff(std::span<const std::uint8_t> file) {
  using namespace std::string_view_literals;
  constexpr std::array<std::string_view, 4> kSignatures = {"II*\0"sv, "MM\0*"sv, "II+\0"sv, "MM\0+"sv};
  return std::any_of(kSignatures.begin(), kSignatures.end(),
                     [&](std::string_view signature) { return begins_with(file, signature); });
}

std::string first_bytes(std::span<const std::uint8_t> file) {
  std::string text;
  for (const std::uint8_t byte : file.first(std::min<std::size_t>(4, file.size()))) {
    text += comm::format(" %02x", byte);
  }
  return text;
}

std::vector<std::uint8_t> read_bytes(const std::string& path) {
  std::error_code status;
  const std::uintmax_t size = std::filesystem::file_size(path, status);
  if (status) throw DataError("cannot be read: " + status.message());
  if (size > kMaxImageFileBytes) {
    throw DataError("has " + std::to_string(size) + " bytes, more than the limit of " +
                    std::to_string(kMaxImageFileBytes) + " for one picture");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw DataError(std::string("cannot be opened: ") + std::strerror(errno));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (file.bad()) throw DataError(std::string("cannot be read: ") + std::strerror(errno));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

}  // namespace

Image Image::of_size(std::int64_t width, std::int64_t height) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width < 1 || height < 1) throw DataError("its header claims " + size);
  if (width > kMaxImagePixels / height) {
    throw DataError("its header claims " + size + ", more than the limit of " + std::to_string(kMaxImagePixels) +
                    " (8192 x 8192); make it smaller or take it out");
  }
  Image image{.width = width, .height = height, .pixels = {}};
  image.pixels.resize(static_cast<std::size_t>(width * height * 3));
  return image;
}

Image decode_image(std::span<const std::uint8_t> file) {
  if (file.empty()) throw DataError("is empty (0 bytes)");
  if (begins_with(file, "\x89PNG\r\n\x1a\n")) return decode_png(file);
  if (begins_with(file, "\xff\xd8\xff")) return decode_jpeg(file);
  if (is_tiff(file)) return decode_tiff(file);
  throw DataError("is not a PNG, JPEG or TIFF picture: it begins with the bytes" + first_bytes(file));
}

Image read_image(const std::string& path) {
  try {
    return decode_image(read_bytes(path));
  } catch (const DataError& error) {
    throw DataError(path + ": " + error.what());
  }
}

}  // namespace tutti::trainer
