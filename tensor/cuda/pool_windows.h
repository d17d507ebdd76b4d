// The windows of a pooling as the kernels read them: a table in device memory, made once per shape. Private to
// tensor/cuda.
//
// Thread-safe. Tables live as long as the process: a few hundred bytes for each shape that was ever pooled.
#pragma once

#include <tutti/tensor/ops.h>

#include <span>

namespace tutti::tensor::cuda {

/// One axis, in device memory.
struct PoolAxis {
  const PoolWindow* windows;  // `count` of them
  const int* first_over;      // (extent) the first window that ends behind a pixel
  const int* end_over;        // (extent) behind the last window that begins at or before it
  int count;
  int extent;
};

/// `extent` is the image's. Uploads the table at its first use on `device`, and waits for that.
PoolAxis pool_axis(std::span<const PoolWindow> windows, std::int64_t extent, Device device);

}  // namespace tutti::tensor::cuda
