// Memory of one process' emulated device, opened by another: the device's memory is a file, which a process of the same
// user finds under /proc. As with CUDA, a block is opened as a whole, and what its owner has not waited for is not in
// it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "world.h"

using cuda_emulator::result;
using cuda_emulator::world;
using Guard = std::scoped_lock<std::recursive_mutex>;

namespace {

// A real card takes a smaller block, and shares whatever else lies in its 2 MiB.
constexpr std::size_t kSharedBytes = std::size_t{2} << 20;

struct Handle {
  pid_t process;
  int file;
  int device;
  std::size_t offset;
  std::size_t bytes;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t));

}  // namespace

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* block) {
  const Guard guard(world().lock);
  const int device = world().device_of(block);
  if (device < 0) return result(cudaErrorInvalidValue);
  const auto& memory = world().devices[static_cast<std::size_t>(device)]->memory;
  const auto [begin, bytes] = memory.block_of(block);
  if (begin == nullptr || bytes < kSharedBytes) return result(cudaErrorInvalidValue);
  const Handle told{.process = getpid(),
                    .file = memory.file(),
                    .device = device,
                    .offset = static_cast<std::size_t>(begin - memory.base()),
                    .bytes = bytes};
  *handle = {};
  std::memcpy(handle, &told, sizeof told);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** block, cudaIpcMemHandle_t handle, unsigned) {
  const Guard guard(world().lock);
  Handle told;
  std::memcpy(&told, &handle, sizeof told);
  if (told.process == getpid()) return result(cudaErrorInvalidResourceHandle);  // as CUDA: only from outside
  const std::string path = "/proc/" + std::to_string(told.process) + "/fd/" + std::to_string(told.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return result(cudaErrorInvalidResourceHandle);
  // Blocks begin at multiples of 512, mappings at multiples of a page.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t before = told.offset % page;
  const std::size_t bytes = before + told.bytes;
  void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, static_cast<off_t>(told.offset - before));
  close(file);
  if (memory == MAP_FAILED) return result(cudaErrorMemoryAllocation);
  auto* const begin = static_cast<std::byte*>(memory);
  world().imported[begin] = {.device = told.device, .bytes = bytes};
  *block = begin + before;
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void* block) {
  const Guard guard(world().lock);
  auto found = world().imported.upper_bound(static_cast<std::byte*>(block));
  if (found == world().imported.begin()) return result(cudaErrorInvalidValue);
  --found;
  const auto& [begin, imported] = *found;
  if (block >= begin + imported.bytes) return result(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < world().devices.size(); ++i) world().run_all(static_cast<int>(i));
  munmap(begin, imported.bytes);
  world().imported.erase(found);
  return cudaSuccess;
}
