#include <tutti/comm/base/format.h>
#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/idx.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using tensor::DType;
using tensor::Shape;
using tensor::Tensor;

constexpr std::uint32_t kUnsignedByte = 0x08;
constexpr std::size_t kInputBytes = std::size_t{256} << 10;
constexpr std::uint64_t kLargestExpansion = 1032;  // https://zlib.net/zlib_tech.html, "maximum compression factor"
constexpr int kGzipWindow = 15 + 16;               // largest window, gzip wrapper only

// Reads a file front to back, unpacking gzip on the way. Memory used is a fixed 256 KiB whatever the file claims about
// itself.
class FileSource {
 public:
  explicit FileSource(const fs::path& path);
  ~FileSource() {
    if (gzip_) inflateEnd(&stream_);
  }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  // Fills `target` and returns how many bytes it got; fewer than `nbytes` only at the end of the content.
  std::size_t read(void* target, std::size_t nbytes) {
    return gzip_ ? read_gzip(static_cast<unsigned char*>(target), nbytes) : read_file(target, nbytes);
  }

  // No file of this size unpacks to more than this many bytes (deflate expands at most 1032-fold; a plain file not at
  // all). A length field above it is a lie, known before any memory is taken.
  std::uint64_t largest_content() const { return gzip_ ? file_bytes_ * kLargestExpansion : file_bytes_; }

  [[noreturn]] void fail(const std::string& what) const { throw DataError(path_.string() + ": " + what); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::size_t read_file(void* target, std::size_t nbytes);
  std::size_t read_gzip(unsigned char* target, std::size_t nbytes);
  bool refill();
  bool begin_next_member();
  void inflate_some();

  const fs::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t file_bytes_ = 0;
  bool gzip_ = false;
  bool member_ended_ = false;  // between gzip members, or after the last
  z_stream stream_{};
  std::vector<unsigned char> input_;
};

FileSource::FileSource(const fs::path& path) : path_(path) {
  std::error_code status;
  if (fs::is_directory(path, status)) fail("is a directory, expected a file");
  file_.reset(std::fopen(path.c_str(), "rbe"));
  if (file_ == nullptr) fail(std::string("cannot be opened: ") + std::strerror(errno));
  file_bytes_ = fs::file_size(path, status);
  if (status) fail("its size cannot be read: " + status.message());
  unsigned char magic[2] = {};
  const bool packed = read_file(magic, 2) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;  // whatever its name says
  std::rewind(file_.get());
  if (!packed) return;
  input_.resize(kInputBytes);
  if (inflateInit2(&stream_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  gzip_ = true;
}

std::size_t FileSource::read_file(void* target, std::size_t nbytes) {
  const std::size_t got = std::fread(target, 1, nbytes, file_.get());
  if (got < nbytes && std::ferror(file_.get()) != 0) fail(std::string("cannot be read: ") + std::strerror(errno));
  return got;
}

std::size_t FileSource::read_gzip(unsigned char* target, std::size_t nbytes) {
  std::size_t done = 0;
  while (done < nbytes) {
    if (member_ended_ && !begin_next_member()) break;
    const std::size_t room = std::min<std::size_t>(nbytes - done, std::numeric_limits<uInt>::max());
    stream_.next_out = target + done;
    stream_.avail_out = static_cast<uInt>(room);
    inflate_some();
    done += room - stream_.avail_out;
  }
  return done;
}

// More compressed bytes; false at the end of the file.
bool FileSource::refill() {
  if (stream_.avail_in > 0) return true;
  stream_.next_in = input_.data();
  stream_.avail_in = static_cast<uInt>(read_file(input_.data(), input_.size()));
  return stream_.avail_in > 0;
}

// A gzip file may be several members in a row, and padded with zeros. False when the file ended properly.
bool FileSource::begin_next_member() {
  while (refill() && *stream_.next_in == 0) {
    ++stream_.next_in;
    --stream_.avail_in;
  }
  if (stream_.avail_in == 0) return false;
  inflateReset(&stream_);
  member_ended_ = false;
  return true;
}

void FileSource::inflate_some() {
  if (!refill()) {
    fail("the gzip file is cut short: it ends after " + std::to_string(file_bytes_) +
         " bytes in the middle of its data; fetch it again");
  }
  const int status = inflate(&stream_, Z_NO_FLUSH);
  if (status == Z_MEM_ERROR) throw std::bad_alloc();
  if (status != Z_OK && status != Z_STREAM_END) {
    fail(std::string("the gzip data is damaged (") + (stream_.msg != nullptr ? stream_.msg : "invalid data") +
         "); fetch the file again");
  }
  member_ended_ = status == Z_STREAM_END;
}

std::uint32_t read_u32(FileSource& source, const char* field) {
  std::array<unsigned char, 4> bytes{};
  const std::size_t got = source.read(bytes.data(), bytes.size());
  if (got < bytes.size()) {
    source.fail(std::string("ends inside its header: ") + std::to_string(got) + " of the 4 bytes of field '" + field +
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
    source.fail(comm::format("field 'magic' is 0x%08x, expected 0x%08x (%s)", magic, expected, what));
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
    source.fail("field 'extent 0' says " + std::to_string(count) + " " + what + " of " + std::to_string(bytes_each) +
                " bytes, but a file of its size holds at most " + std::to_string(limit) + " bytes");
  }
}

// Exactly `nbytes` more bytes and then the end.
void read_elements(FileSource& source, void* target, std::int64_t nbytes) {
  const auto expected = static_cast<std::size_t>(nbytes);
  const std::size_t got = source.read(target, expected);
  if (got < expected) {
    source.fail("holds " + std::to_string(got) + " bytes of elements, expected " + std::to_string(nbytes) +
                " by its header; the file is cut short");
  }
  unsigned char extra = 0;
  if (source.read(&extra, 1) != 0) {
    source.fail("has bytes after the " + std::to_string(nbytes) + " bytes of elements that its header announces");
  }
}

}  // namespace

Tensor read_idx_images(const std::filesystem::path& path, std::int64_t height, std::int64_t width) {
  FileSource source(path);
  const auto extents = read_header<3>(source, "unsigned bytes, 3 dimensions: images");
  if (extents[1] != height || extents[2] != width) {
    source.fail("fields 'extent 1' and 'extent 2' are " + std::to_string(extents[1]) + " x " +
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
    source.fail("field 'extent 0' is " + std::to_string(extents[0]) + " labels, expected " +
                std::to_string(expected_count) + ", one for each image");
  }
  check_fits(source, extents[0], 1, "labels");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(extents[0]));
  read_elements(source, bytes.data(), extents[0]);
  const auto wrong = std::find_if(bytes.begin(), bytes.end(), [&](std::uint8_t label) { return label >= classes; });
  if (wrong != bytes.end()) {
    source.fail("label " + std::to_string(wrong - bytes.begin()) + " is " + std::to_string(*wrong) +
                ", expected 0 to " + std::to_string(classes - 1));
  }
  Tensor labels = Tensor::empty(Shape{extents[0]}, DType::Int64);
  std::copy(bytes.begin(), bytes.end(), labels.data<std::int64_t>());
  return labels;
}

void check_gzip(const fs::path& path) {
  FileSource source(path);
  std::vector<char> block(std::size_t{64} << 10);
  while (source.read(block.data(), block.size()) == block.size()) {
  }
}

}  // namespace tutti::trainer
