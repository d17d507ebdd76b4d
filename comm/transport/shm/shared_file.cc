#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/shared_file.h>

#include <cerrno>
#include <system_error>

namespace tutti::comm {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[noreturn]] void fail(const std::string& what, int error) {
  throw Error(ErrorCode::System, what + ": " + std::generic_category().message(error));
}

}  // namespace

void SharedFile::Unmap::operator()(std::byte* data) const { ::munmap(data, size); }

void SharedFile::map(int descriptor, std::size_t bytes, int flags, const std::string& what) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | flags, descriptor, 0);
  if (data == MAP_FAILED) fail("mapping " + std::to_string(bytes) + " bytes of " + what, errno);
  data_ = {static_cast<std::byte*>(data), Unmap{bytes}};
}

SharedFile SharedFile::create(const std::string& label, std::size_t bytes, bool populate) {
  SharedFile file;
  file.descriptor_ = Socket(::memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int descriptor = file.descriptor();
  if (descriptor < 0) fail("memfd_create for shared memory", errno);
  if (::ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 || ::fcntl(descriptor, F_ADD_SEALS, kSeals) != 0)
    fail("shared memory of " + std::to_string(bytes) + " bytes", errno);
  file.map(descriptor, bytes, populate ? MAP_POPULATE : 0, "shared memory");
  return file;
}

SharedFile SharedFile::open(pid_t owner, int descriptor, std::size_t bytes) {
  const std::string path = "/proc/" + std::to_string(owner) + "/fd/" + std::to_string(descriptor);
  const Socket opened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (opened.get() < 0) fail("opening the shared memory " + path, errno);
  struct stat status {};
  const int seals = ::fcntl(opened.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(opened.get(), &status) != 0 ||
      static_cast<std::size_t>(status.st_size) < bytes)
    throw Error(ErrorCode::System, path, " is not the shared memory of ", bytes,
                " bytes that its process has announced");
  SharedFile file;
  file.map(opened.get(), bytes, 0, path);
  return file;
}

}  // namespace tutti::comm
