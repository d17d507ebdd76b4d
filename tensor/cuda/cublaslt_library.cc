#include <tutti/tensor/cuda/cublaslt.h>
#include <tutti/tensor/cuda/shared_library.h>

#include <stdexcept>

namespace tutti::tensor::cuda {
namespace {

CublasLt load() {
  const SharedLibrary library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR));
  if (!library.loaded()) {
    throw std::runtime_error("matrix products on a GPU need cuBLASLt: " + library.complaint() +
                             "; install the CUDA Toolkit's cuBLAS, or add its folder to LD_LIBRARY_PATH");
  }
  CublasLt table{};
#define TUTTI_FIND(function) library.find(table.function, #function);
  TUTTI_CUBLASLT_FUNCTIONS(TUTTI_FIND)
#undef TUTTI_FIND
  return table;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt table = load();  // a load that throws is tried again by the next caller
  return table;
}

std::string cublaslt_status() {
  try {
    const std::size_t version = cublaslt().cublasLtGetVersion();  // 130100 is 13.1.0
    return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
           std::to_string(version % 100);
  } catch (const std::runtime_error& error) {
    return std::string("nothing (") + error.what() + ")";
  }
}

}  // namespace tutti::tensor::cuda
