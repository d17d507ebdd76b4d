#include <tutti/trainer/data/data_error.h>
#include <tutti/trainer/data/file_source.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace tutti::trainer {
namespace {

constexpr std::size_t kInputBytes = std::size_t{256} << 10;
constexpr std::uint64_t kLargestExpansion = 1032;  // https://zlib.net/zlib_tech.html, "maximum compression factor"
constexpr int kGzipWindow = 15 + 16;               // largest window, gzip wrapper only

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

struct FileSource::State {
  std::filesystem::path path;
  std::unique_ptr<std::FILE, FileCloser> file;
  std::uint64_t file_bytes = 0;
  bool gzip = false;
  bool member_ended = false;  // between gzip members, or after the last
  z_stream stream{};
  std::vector<unsigned char> input;

  std::string name() const { return path.string(); }
  std::size_t read_file(void* target, std::size_t nbytes);
  bool refill();
  bool begin_next_member();
  void inflate_some();
  std::size_t read_gzip(void* target, std::size_t nbytes);
};

std::size_t FileSource::State::read_file(void* target, std::size_t nbytes) {
  const std::size_t got = std::fread(target, 1, nbytes, file.get());
  if (got < nbytes && std::ferror(file.get()) != 0) {
    throw DataError(name() + ": cannot be read: " + std::strerror(errno));
  }
  return got;
}

// More compressed bytes; false at the end of the file.
bool FileSource::State::refill() {
  if (stream.avail_in > 0) {
    return true;
  }
  stream.next_in = input.data();
  stream.avail_in = static_cast<uInt>(read_file(input.data(), input.size()));
  return stream.avail_in > 0;
}

// A gzip file may be several members in a row, and padded with zeros. False when the file ended properly.
bool FileSource::State::begin_next_member() {
  while (refill() && *stream.next_in == 0) {
    ++stream.next_in;
    --stream.avail_in;
  }
  if (stream.avail_in == 0) {
    return false;
  }
  inflateReset(&stream);
  member_ended = false;
  return true;
}

void FileSource::State::inflate_some() {
  if (!refill()) {
    throw DataError(name() + ": the gzip file is cut short: it ends after " + std::to_string(file_bytes) +
                    " bytes in the middle of its data; fetch it again");
  }
  const int status = inflate(&stream, Z_NO_FLUSH);
  if (status == Z_STREAM_END) {
    member_ended = true;
  } else if (status == Z_MEM_ERROR) {
    throw std::bad_alloc();
  } else if (status != Z_OK) {
    const char* reason = stream.msg != nullptr ? stream.msg : "invalid data";
    throw DataError(name() + ": the gzip data is damaged (" + reason + "); fetch the file again");
  }
}

std::size_t FileSource::State::read_gzip(void* target, std::size_t nbytes) {
  auto* const begin = static_cast<unsigned char*>(target);
  std::size_t done = 0;
  while (done < nbytes) {
    if (member_ended && !begin_next_member()) {
      break;
    }
    const std::size_t room = std::min<std::size_t>(nbytes - done, std::numeric_limits<uInt>::max());
    stream.next_out = begin + done;
    stream.avail_out = static_cast<uInt>(room);
    inflate_some();
    done += room - stream.avail_out;
  }
  return done;
}

FileSource::FileSource(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.path = path;
  std::error_code status;
  if (std::filesystem::is_directory(path, status)) {
    throw DataError(path.string() + ": is a directory, expected a file");
  }
  state.file.reset(std::fopen(path.c_str(), "rbe"));
  if (state.file == nullptr) {
    throw DataError(path.string() + ": cannot be opened: " + std::strerror(errno));
  }
  state.file_bytes = std::filesystem::file_size(path, status);
  if (status) {
    throw DataError(path.string() + ": its size cannot be read: " + status.message());
  }
  unsigned char magic[2] = {};
  state.gzip = state.read_file(magic, 2) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;  // whatever its name says
  std::rewind(state.file.get());
  if (!state.gzip) {
    return;
  }
  state.input.resize(kInputBytes);
  if (inflateInit2(&state.stream, kGzipWindow) != Z_OK) {
    throw std::bad_alloc();
  }
}

FileSource::~FileSource() {
  if (state_->gzip) {
    inflateEnd(&state_->stream);
  }
}

std::size_t FileSource::read(void* target, std::size_t nbytes) {
  return state_->gzip ? state_->read_gzip(target, nbytes) : state_->read_file(target, nbytes);
}

std::uint64_t FileSource::largest_content() const {
  return state_->gzip ? state_->file_bytes * kLargestExpansion : state_->file_bytes;
}

const std::filesystem::path& FileSource::path() const { return state_->path; }

void check_gzip(const std::filesystem::path& path) {
  FileSource source(path);
  std::vector<char> block(std::size_t{64} << 10);
  while (source.read(block.data(), block.size()) == block.size()) {
  }
}

}  // namespace tutti::trainer
