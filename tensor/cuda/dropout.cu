// The mask of dropout: the CPU's bits, from the same Philox stream of each sample (keyed_stream.h). One thread draws
// one block of four numbers.
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/device.h>
#include <tutti/tensor/cuda/launch.h>

#include <cmath>

namespace tutti::tensor::cuda {
namespace {

struct Words {
  unsigned v[4];
};

// Philox4x32-10; constants and source in keyed_stream.cc.
__device__ Words philox(Words c, unsigned key0, unsigned key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xd2511f53u} * c.v[0];
    const std::uint64_t second = std::uint64_t{0xcd9e8d57u} * c.v[2];
    c = {{static_cast<unsigned>(second >> 32) ^ c.v[1] ^ key0, static_cast<unsigned>(second),
          static_cast<unsigned>(first >> 32) ^ c.v[3] ^ key1, static_cast<unsigned>(first)}};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return c;
}

// mask (rows, length): number i of a row's stream is at least `threshold`. Block i of a stream is that of counter i.
__global__ void mask_kernel(std::uint8_t* mask, const std::int64_t* keys, std::int64_t rows, std::int64_t length,
                            std::uint64_t layer, std::uint64_t threshold) {
  const std::int64_t blocks = (length + 3) / 4;
  for (std::int64_t i = first_index(); i < rows * blocks; i += index_step()) {
    const std::int64_t row = i / blocks;
    const auto block = static_cast<std::uint64_t>(i % blocks);
    const auto key = static_cast<std::uint64_t>(keys[row]);
    const Words drawn = philox({{static_cast<unsigned>(block), static_cast<unsigned>(block >> 32),
                                 static_cast<unsigned>(layer), static_cast<unsigned>(layer >> 32)}},
                               static_cast<unsigned>(key), static_cast<unsigned>(key >> 32));
    const std::int64_t begin = static_cast<std::int64_t>(block) * 4;
    for (int k = 0; k < 4 && begin + k < length; ++k) {
      mask[row * length + begin + k] = drawn.v[k] >= threshold ? 1 : 0;
    }
  }
}

}  // namespace

void dropout_mask(Tensor& mask, const Tensor& keys, std::uint64_t layer, double p) {
  const Operation op("dropout_mask", mask);
  const std::int64_t rows = mask.shape()[0];
  const std::int64_t length = mask.shape()[1];
  const auto threshold = static_cast<std::uint64_t>(std::llround(p * 0x1p32));
  op.launch(op.over(rows * ((length + 3) / 4)), mask_kernel, address<std::uint8_t>(mask), address<std::int64_t>(keys),
            rows, length, layer, threshold);
}

}  // namespace tutti::tensor::cuda
