#include <tutti/tensor/cuda/cublaslt.h>
#include <tutti/tensor/cuda/cudnn.h>
#include <tutti/tensor/products.h>

namespace tutti::tensor {

std::string describe_products() {
  return std::string("products in ") + name(float32_products()) + " by " + cuda::cublaslt_status() +
         ", convolutions by " + cuda::convolution_status();
}

}  // namespace tutti::tensor
