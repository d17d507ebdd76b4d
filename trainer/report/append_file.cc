#include <tutti/trainer/report/append_file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace tutti::trainer {
namespace {

constexpr std::size_t kBuffer = 64 * 1024;

[[noreturn]] void fail_to_write(const std::filesystem::path& file) {
  throw std::runtime_error("cannot write " + file.string() + ": " + std::strerror(errno));
}

}  // namespace

AppendFile::AppendFile(const std::filesystem::path& file, std::uint64_t keep_bytes)
    : path_(file), buffer_(std::make_unique<char[]>(kBuffer)), file_(std::fopen(file.c_str(), "abe")) {
  if (file_ == nullptr || ::ftruncate(::fileno(file_.get()), static_cast<off_t>(keep_bytes)) != 0) fail_to_write(path_);
  std::setvbuf(file_.get(), buffer_.get(), _IOFBF, kBuffer);
}

void AppendFile::append(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail_to_write(path_);
}

void AppendFile::flush() {
  if (std::fflush(file_.get()) != 0) fail_to_write(path_);
}

}  // namespace tutti::trainer
