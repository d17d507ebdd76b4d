#include <tutti/tensor/autograd/checks.h>

#include <stdexcept>
#include <string>

namespace tutti::tensor {

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return std::string(name(tensor.dtype())) + " " + tensor.shape().to_string();
}

void refuse(const char* operation, const Tensor& a, const Tensor& b, const char* complaint) {
  throw std::invalid_argument(std::string(operation) + ": " + describe(a) + " and " + describe(b) + " " + complaint);
}

void check_floating(const char* operation, const Tensor& a) {
  if (a.dtype() != DType::Float32 && a.dtype() != DType::Float64) {
    throw std::invalid_argument(std::string(operation) + ": needs float32 or float64, got " + describe(a) +
                                "; convert with to()");
  }
}

void check_same_device(const char* operation, const Tensor& a, const Tensor& b) {
  if (a.device() == b.device()) return;
  refuse(
      operation, a, b,
      ("lie on different devices, " + name(a.device()) + " and " + name(b.device()) + "; move one with to()").c_str());
}

void check_same_type(const char* operation, const Tensor& a, const Tensor& b) {
  check_floating(operation, a);
  if (a.dtype() != b.dtype()) refuse(operation, a, b, "differ in type; convert one with to()");
  check_same_device(operation, a, b);
}

void check_same(const char* operation, const Tensor& a, const Tensor& b) {
  check_same_type(operation, a, b);
  if (a.shape() != b.shape()) refuse(operation, a, b, "differ in shape");
}

void check_rank(const char* operation, const Tensor& a, int rank) {
  if (a.rank() != rank) {
    throw std::invalid_argument(std::string(operation) + ": needs " + std::to_string(rank) + " dimensions, got " +
                                describe(a));
  }
}

}  // namespace tutti::tensor
