// What the rest of tensor asks of CUDA, beside the questions in device.h. A build with the CUDA Toolkit links the
// sources of cuda/, one without links no_cuda/no_cuda.cc, where every function refuses. Nobody else asks which.
//
// Thread-safety: every function may be called from any thread. All throw std::runtime_error with the operation, the
// device and CUDA's own reason.
#pragma once

#include <tutti/tensor/tensor.h>

#include <cstddef>

namespace tutti::tensor {

struct KernelTable;  // ops.h

namespace cuda {

/// Throws unless tensors can be made on `device`: names it, why not, and what to use instead.
void require(Device device);

const KernelTable& kernel_table();

/// Memory for work on the calling thread's current stream of `device` (runtime.h); undefined contents, 256-byte
/// aligned. Out of memory: gives cached blocks back and tries again, then throws with what was asked, free, cached.
void* allocate(std::size_t bytes, Device device);
/// May be called while work that uses the block is still under way.
void deallocate(void* block, std::size_t bytes, Device device) noexcept;

/// out = in, of one shape and type and any strides; at least one of them on a GPU. A result on the host is there on
/// return. The host's `in` may be changed on return.
void transfer(Tensor& out, const Tensor& in);
/// As transfer() from page-locked memory to a GPU, but returns at once: `in` stays unchanged until the stream has
/// passed.
void transfer_async(Tensor& out, const Tensor& in);
/// The same for bare bytes.
void transfer_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes);

/// A tensor of the CPU in page-locked memory, from which the GPU copies at full speed. Undefined contents.
Tensor page_locked(const Shape& shape, DType dtype, Device device);

/// Waits for the thread's current stream of `device` and throws what went wrong on it.
void synchronize(Device device);

struct MemoryUse {
  std::size_t live_bytes = 0;          // in blocks handed out
  std::size_t cached_bytes = 0;        // in blocks that wait to be used again
  std::size_t system_allocations = 0;  // constant while the cache serves everything
};
MemoryUse memory_use(Device device);
/// Gives cached blocks back to the device.
void trim(Device device);

}  // namespace cuda
}  // namespace tutti::tensor
