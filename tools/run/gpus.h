// The GPUs of this host, as far as they matter to a launcher: how many. Reads the environment and /dev; asks no driver.
#pragma once

namespace tutti::tools {

/// Entries of CUDA_VISIBLE_DEVICES if it is set, else NVIDIA's devices in /dev.
int visible_gpus();

}  // namespace tutti::tools
