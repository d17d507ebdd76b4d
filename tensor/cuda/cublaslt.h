// The functions of cuBLASLt that gemm.cc calls, under their own names: filled from the library when a GPU computes its
// first product (cublaslt_library.cc), or by the emulator's twin in tests. Private to tensor/cuda.
#pragma once

#include <cublasLt.h>

#include <string>

#define TUTTI_CUBLASLT_FUNCTIONS(F)       \
  F(cublasLtCreate)                       \
  F(cublasLtGetStatusString)              \
  F(cublasLtGetVersion)                   \
  F(cublasLtMatmul)                       \
  F(cublasLtMatmulAlgoGetHeuristic)       \
  F(cublasLtMatmulDescCreate)             \
  F(cublasLtMatmulDescDestroy)            \
  F(cublasLtMatmulDescSetAttribute)       \
  F(cublasLtMatmulPreferenceCreate)       \
  F(cublasLtMatmulPreferenceDestroy)      \
  F(cublasLtMatmulPreferenceSetAttribute) \
  F(cublasLtMatrixLayoutCreate)           \
  F(cublasLtMatrixLayoutDestroy)

namespace tutti::tensor::cuda {

struct CublasLt {
#define TUTTI_DECLARE(function) decltype(&::function) function;
  TUTTI_CUBLASLT_FUNCTIONS(TUTTI_DECLARE)
#undef TUTTI_DECLARE
};

/// Throws std::runtime_error when the library cannot be loaded: what was tried, and what to install.
const CublasLt& cublaslt();

/// "cuBLASLt 13.1.0", or why it cannot be used.
std::string cublaslt_status();

}  // namespace tutti::tensor::cuda
