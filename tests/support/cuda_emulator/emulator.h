// What tests ask of the emulator beyond CUDA: faults on demand. Thread-safe.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

namespace cuda_emulator {

/// The `after`-th kernel from now (1 = the next) that the device runs faults with `error`; from then on the device does
/// nothing more and every call that looks at it returns the error, until clear_fault(). As CUDA does it: nobody is told
/// at the launch.
void fault_at(int device, std::uint64_t after, cudaError_t error);
void clear_fault(int device);

/// How many kernels were launched since the process began.
std::uint64_t launches();

/// Of each device whether a thread has chosen it, or worked with it as its current one, since the last call: that makes
/// a context there.
std::vector<bool> take_contexts();

}  // namespace cuda_emulator
