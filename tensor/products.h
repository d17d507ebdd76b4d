// How products are computed on a GPU: which arithmetic, and which libraries. Settings of the process, like its memory
// and cores.
//
// float32 products (gemm, conv2d) are computed in full float32 unless asked otherwise, as PyTorch's matmul is by
// default. TF32 keeps the range and takes 10 of the 23 bits of the factors' mantissas; sums stay float32. It is what
// TUTTI_TF32=1, `tutti train --tf32` and PyTorch's allow_tf32 mean; comparisons of speed use it on both sides. bf16
// (TUTTI_BF16=1, --bf16) takes 7 bits, in matrix products; convolutions then use TF32. float64 is never shortened, and
// tensors, element-wise work and reductions stay what they are.
//
// Thread-safety: set before other threads compute.
#pragma once

#include <string>

namespace tutti::tensor {

enum class Float32Products { Full, Tf32, Bf16 };

/// At first what TUTTI_TF32 and TUTTI_BF16 say (1 or 0; bf16 if both are 1).
/// Throws std::invalid_argument for another value, naming it.
Float32Products float32_products();
void set_float32_products(Float32Products products);
/// "float32", "tf32", "bf16".
const char* name(Float32Products products);

/// False: convolutions on a GPU are computed by our own kernels. At first true unless TUTTI_CUDNN=0; where cuDNN was
/// not there at build time or is not at run time, our own kernels are used in any case.
bool cudnn_wanted();
void set_cudnn_wanted(bool wanted);

/// One line: what computes the products on a GPU, e.g. "products in tf32 by cuBLASLt 13.0.2, convolutions by cuDNN
/// 9.19.0", or why a library is not used. Loads the libraries.
std::string describe_products();

}  // namespace tutti::tensor
