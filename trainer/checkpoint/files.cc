#include <fcntl.h>
#include <tutti/trainer/checkpoint/files.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tutti::trainer {
namespace {

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path, int error_number) {
  throw std::system_error(error_number, std::generic_category(), "cannot " + what + " " + path.string());
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags, const char* what)
      : number_(::open(path.c_str(), flags, 0666)) {
    if (number_ < 0) fail(what, path, errno);
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
}

std::filesystem::path temporary_name(const std::filesystem::path& file) {
  return folder_of(file) / ("." + file.filename().string() + ".tmp-" + std::to_string(::getpid()));
}

}  // namespace

std::string read_whole_file(const std::filesystem::path& file) {
  const Descriptor descriptor(file, O_RDONLY | O_CLOEXEC, "read");
  std::string bytes;
  std::string block(std::size_t{1} << 20, '\0');
  for (;;) {
    const ssize_t got = ::read(descriptor.number(), block.data(), block.size());
    if (got == 0) return bytes;
    if (got > 0) {
      bytes.append(block.data(), static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      fail("read", file, errno);
    }
  }
}

void write_durably(const std::filesystem::path& file, std::string_view bytes) {
  const Descriptor descriptor(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, "write");
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor.number(), bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      fail("write", file, errno);
    }
  }
  if (::fsync(descriptor.number()) != 0 && errno != EINVAL) fail("write", file, errno);  // EINVAL: a pipe or a terminal
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, "open folder");
  if (::fsync(descriptor.number()) != 0 && errno != EINVAL) fail("sync folder", folder, errno);
}

void replace_file(const std::filesystem::path& file, std::string_view bytes) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(file, ignored).type();
  if (kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found) {
    write_durably(file, bytes);  // /dev/stdout, a named pipe: a rename would replace the device by a file
    return;
  }
  const std::filesystem::path temporary = temporary_name(file);
  try {
    write_durably(temporary, bytes);
    if (std::rename(temporary.c_str(), file.c_str()) != 0) fail("write", file, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void check_writable(const std::filesystem::path& file) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(file, ignored).type();
  if (kind == std::filesystem::file_type::directory) fail("write", file, EISDIR);
  if (kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::not_found) return;
  const std::filesystem::path probe = temporary_name(file);
  {
    // The error is about the file the user named, not about the probe.
    const int descriptor = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0) fail("write", file, errno);
    ::close(descriptor);
  }
  ::unlink(probe.c_str());
}

}  // namespace tutti::trainer
