// Runs a grid: blocks one after the other, the threads of a block as fibers. Private to the emulator.
#pragma once

#include <cstddef>
#include <functional>

#include "include/device_builtins.h"

namespace cuda_emulator {

/// Calls `thread` once for each thread of the grid, with threadIdx and its kin set. A block whose threads can never
/// meet at their barriers ends the program with a text that says where they wait. TUTTI_EMULATOR_ORDER (forward,
/// reverse, shuffle) sets the order of blocks and threads: a missing barrier gives other results in another order.
void run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, const std::function<void()>& thread);

}  // namespace cuda_emulator
