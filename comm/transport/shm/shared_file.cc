#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/shared_file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tutti::comm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error(ErrorCode::System, what + ": " + std::generic_category().message(error));
}

std::byte* map(int descriptor, std::size_t bytes, int flags, const std::string& what) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, descriptor, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    ::close(descriptor);
    fail("mapping " + std::to_string(bytes) + " bytes of " + what, error);
  }
  return static_cast<std::byte*>(data);
}

}  // namespace

SharedFile SharedFile::create(const std::string& label, std::size_t bytes, bool populate) {
  SharedFile file;
  const int descriptor = ::memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) fail("memfd_create for shared memory", errno);
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 || ::fcntl(descriptor, F_ADD_SEALS, kSeals) != 0) {
    const int error = errno;
    ::close(descriptor);
    fail("shared memory of " + std::to_string(bytes) + " bytes", error);
  }
  file.data_ = map(descriptor, bytes, populate ? MAP_POPULATE : 0, "shared memory");
  file.size_ = bytes;
  file.descriptor_ = descriptor;
  return file;
}

SharedFile SharedFile::open(pid_t owner, int descriptor, std::size_t bytes) {
  const std::string path = "/proc/" + std::to_string(owner) + "/fd/" + std::to_string(descriptor);
  const int opened = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (opened < 0) fail("opening the shared memory " + path, errno);
  struct stat status {};
  const int seals = ::fcntl(opened, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(opened, &status) != 0 ||
      static_cast<std::size_t>(status.st_size) < bytes) {
    ::close(opened);
    throw Error(ErrorCode::System, path + " is not the shared memory of " + std::to_string(bytes) +
                                       " bytes that its process has announced");
  }
  SharedFile file;
  file.data_ = map(opened, bytes, 0, path);
  file.size_ = bytes;
  ::close(opened);
  return file;
}

SharedFile::SharedFile(SharedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

SharedFile& SharedFile::operator=(SharedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

SharedFile::~SharedFile() {
  if (data_) ::munmap(data_, size_);
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace tutti::comm
