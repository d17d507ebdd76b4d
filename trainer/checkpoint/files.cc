#include <fcntl.h>
#include <tutti/comm/base/output_file.h>
#include <tutti/trainer/checkpoint/files.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace tutti::trainer {
namespace {

[[noreturn]] void fail(const std::string& what, const std::filesystem::path& path, int error_number) {
  throw std::system_error(error_number, std::generic_category(), "cannot " + what + " " + path.string());
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags, const char* what) : number_(::open(path.c_str(), flags)) {
    if (number_ < 0) fail(what, path, errno);
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

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

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, "open folder");
  if (::fsync(descriptor.number()) != 0 && errno != EINVAL) fail("sync folder", folder, errno);
}

void replace_file(const std::filesystem::path& file, std::string_view bytes) { comm::write_output(file, bytes); }

void check_writable(const std::filesystem::path& file) { const comm::OutputFile probe(file); }

}  // namespace tutti::trainer
