#include <tutti/tensor/dtype.h>

#include <stdexcept>
#include <string>

namespace tutti::tensor {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return sizeof(float);
    case DType::Float64:
      return sizeof(double);
    case DType::Int64:
      return sizeof(std::int64_t);
    case DType::UInt8:
      return sizeof(std::uint8_t);
  }
  throw std::invalid_argument("unknown DType value " + std::to_string(static_cast<int>(dtype)));
}

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return "float32";
    case DType::Float64:
      return "float64";
    case DType::Int64:
      return "int64";
    case DType::UInt8:
      return "uint8";
  }
  throw std::invalid_argument("unknown DType value " + std::to_string(static_cast<int>(dtype)));
}

}  // namespace tutti::tensor
