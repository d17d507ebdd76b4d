// cuBLASLt and cuDNN are opened at run time: every function that is looked up must be there. Needs no GPU.
#include <gtest/gtest.h>
#include <tutti/tensor/cuda/cublaslt.h>
#include <tutti/tensor/cuda/shared_library.h>
#include <tutti/tensor/products.h>
#if defined(TUTTI_CUDNN_FOUND)
#include <tutti/tensor/cuda/cudnn_library.h>
#endif

#include <cstring>
#include <stdexcept>
#include <string>

namespace tutti::tensor::cuda {
namespace {

// Whether a table of function pointers has no hole.
template <typename Table>
bool complete(const Table& table) {
  constexpr std::size_t kCount = sizeof(Table) / sizeof(void*);
  void* pointers[kCount];
  std::memcpy(pointers, &table, sizeof pointers);
  for (void* pointer : pointers) {
    if (pointer == nullptr) return false;
  }
  return true;
}

TEST(CudaLibraries, CublasLtHasEveryFunction) {
  EXPECT_TRUE(complete(cublaslt()));
  EXPECT_EQ(cublaslt_status().rfind("cuBLASLt " + std::to_string(CUBLAS_VER_MAJOR) + ".", 0), 0u) << cublaslt_status();
}

// An attribute of a wrong size is refused by the real library: the sizes that gemm.cc passes are the right ones.
TEST(CudaLibraries, CublasLtTakesOurAttributes) {
  const CublasLt& lt = cublaslt();
  cublasLtMatmulDesc_t operation = nullptr;
  ASSERT_EQ(lt.cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    return lt.cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value);
  };
  const void* const bias = operation;
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_BIAS), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(set(CUBLASLT_MATMUL_DESC_EPILOGUE, char{0}), CUBLAS_STATUS_INVALID_VALUE);
  lt.cublasLtMatmulDescDestroy(operation);

  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(lt.cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return lt.cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
  };
  EXPECT_EQ(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::size_t{1} << 20), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, std::uint32_t{16}), CUBLAS_STATUS_SUCCESS);
  lt.cublasLtMatmulPreferenceDestroy(preference);
}

#if defined(TUTTI_CUDNN_FOUND)
TEST(CudaLibraries, CudnnHasEveryFunction) {
  ASSERT_NE(cudnn(), nullptr) << cudnn_complaint();
  EXPECT_TRUE(complete(*cudnn()));
  EXPECT_EQ(cudnn()->cudnnGetVersion() / 10000, static_cast<std::size_t>(CUDNN_MAJOR));
}
#endif

TEST(CudaLibraries, WhatIsMissingIsNamed) {
  const SharedLibrary none("libthere_is_no_such.so.7");
  EXPECT_FALSE(none.loaded());
  EXPECT_NE(none.complaint().find("libthere_is_no_such.so.7"), std::string::npos) << none.complaint();
  void (*function)() = nullptr;
  EXPECT_THROW(none.find(function, "f"), std::runtime_error);
}

TEST(CudaLibraries, TheChoiceIsTold) {
  set_cudnn_wanted(false);
  set_float32_products(Float32Products::Tf32);
  const std::string text = describe_products();
  EXPECT_EQ(text.rfind("products in tf32 by cuBLASLt", 0), 0u) << text;
  EXPECT_NE(text.find("convolutions by our own kernels"), std::string::npos) << text;
  set_cudnn_wanted(true);
  set_float32_products(Float32Products::Full);
}

}  // namespace
}  // namespace tutti::tensor::cuda
