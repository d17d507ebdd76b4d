#include <tutti/comm/base/output_file.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/data/image/image_cache.h>

#include <chrono>
#include <fstream>
#include <system_error>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "tuttiimg";
constexpr std::uint64_t kVersion = 1;
constexpr std::string_view kDraftMark = ".tmp-";  // in the name of an OutputFile that is not complete
constexpr std::size_t kSumBytes = 32;

fs::path absolute_path(const ImageFolder& folder) {
  std::error_code status;
  const fs::path path = fs::canonical(folder.folder, status);
  return status ? fs::absolute(folder.folder) : path;
}

std::string key_of(const ImageFolder& folder) {
  std::string key = absolute_path(folder).string() + "\n";
  for (const ImageFile& file : folder.files) {
    key += file.path + "\t" + std::to_string(file.size) + "\t" + std::to_string(file.modified_ns) + "\n";
  }
  return key;
}

// All that stands before the flags.
std::string header_of(const ImageFolder& folder, std::int64_t size) {
  const std::string key = key_of(folder);
  std::string header(kMagic);
  for (const std::uint64_t number :
       {kVersion, static_cast<std::uint64_t>(size), std::uint64_t{folder.files.size()}, std::uint64_t{key.size()}}) {
    header.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  return header + key;
}

[[noreturn]] void damaged(const fs::path& file, const std::string& what) {
  throw DataError(file.string() + ": this cache of decoded pictures is damaged: " + what);
}

void remove_old_leftovers(const fs::path& cache_dir) {
  std::error_code status;
  const auto yesterday = fs::file_time_type::clock::now() - std::chrono::hours(24);
  for (fs::directory_iterator entry(cache_dir, status), end; !status && entry != end; entry.increment(status)) {
    const bool leftover = entry->path().filename().string().find(kDraftMark) != std::string::npos;
    std::error_code ignored;
    if (leftover && entry->last_write_time(ignored) < yesterday && !ignored) fs::remove(entry->path(), ignored);
  }
}

}  // namespace

fs::path image_cache_file(const fs::path& cache_dir, const ImageFolder& folder, std::int64_t size) {
  const fs::path path = absolute_path(folder);
  const std::string name =
      path.filename().string() + "-" + std::to_string(size) + "-" + Digest().add(path.native()).hex().substr(0, 16);
  return cache_dir / (name + ".tuttiimg");
}

std::optional<DecodedFolder> read_image_cache(const fs::path& file, const ImageFolder& folder, std::int64_t size) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return std::nullopt;
  const auto nbytes = static_cast<std::uint64_t>(in.tellg());  // of the open file: the path may name another by now
  in.seekg(0);
  Digest sum;
  const auto read = [&](void* target, std::size_t count) {
    in.read(static_cast<char*>(target), static_cast<std::streamsize>(count));
    sum.add(target, static_cast<std::size_t>(in.gcount()));
    return in.good();
  };
  const std::string expected = header_of(folder, size);
  std::string header(expected.size(), '\0');
  const bool whole = read(header.data(), header.size());
  if (header.compare(0, kMagic.size(), kMagic) != 0) damaged(file, "it does not begin as one");
  if (!whole || header != expected) return std::nullopt;
  const std::size_t count = folder.files.size();
  const auto side = static_cast<std::uint64_t>(size);
  const std::uint64_t wanted = header.size() + count + count * side * side * 3 + kSumBytes;
  if (nbytes != wanted) {
    damaged(file, "it has " + std::to_string(nbytes) + " bytes instead of " + std::to_string(wanted));
  }
  DecodedFolder result;
  std::string flags(count, '\0');
  result.images = tensor::Tensor::empty({static_cast<std::int64_t>(count), size, size, 3}, tensor::DType::UInt8);
  if (!read(flags.data(), count) || !read(result.images.raw(), result.images.nbytes())) {
    damaged(file, "it cannot be read to its end");
  }
  std::vector<unsigned char> stored(kSumBytes);
  in.read(reinterpret_cast<char*>(stored.data()), kSumBytes);
  if (!in || stored != sum.bytes()) damaged(file, "its checksum does not fit");
  for (const char flag : flags) result.decoded.push_back(flag == 1);
  return result;
}

void write_image_cache(const fs::path& file, const ImageFolder& folder, std::int64_t size,
                       const DecodedFolder& decoded) {
  std::error_code status;
  fs::create_directories(file.parent_path(), status);
  if (status) throw DataError(file.parent_path().string() + ": cannot be created: " + status.message());
  remove_old_leftovers(file.parent_path());
  std::string flags;
  for (const bool done : decoded.decoded) flags += done ? '\1' : '\0';
  const std::string header = header_of(folder, size);
  const std::string_view pixels(static_cast<const char*>(decoded.images.raw()), decoded.images.nbytes());
  Digest sum;
  sum.add(header).add(flags).add(pixels);
  const std::vector<unsigned char> digest = sum.bytes();
  try {
    comm::OutputFile output(file);
    for (const std::string_view part : {std::string_view(header), std::string_view(flags), pixels}) output.write(part);
    output.write({reinterpret_cast<const char*>(digest.data()), digest.size()});
    output.finish();
  } catch (const std::system_error& error) {
    throw DataError(file.string() + ": this cache of decoded pictures cannot be written: " + error.code().message());
  }
}

}  // namespace tutti::trainer
