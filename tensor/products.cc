#include <tutti/tensor/products.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>

namespace tutti::tensor {
namespace {

bool switched_on(const char* variable, bool otherwise) {
  const char* const value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return otherwise;
  if (std::string(value) == "1") return true;
  if (std::string(value) == "0") return false;
  throw std::invalid_argument(std::string(variable) + "=" + value + " is not understood: use 1 or 0");
}

Float32Products asked_for() {
  if (switched_on("TUTTI_BF16", false)) return Float32Products::Bf16;
  return switched_on("TUTTI_TF32", false) ? Float32Products::Tf32 : Float32Products::Full;
}

std::atomic<Float32Products>& products_setting() {
  static std::atomic<Float32Products> setting{asked_for()};
  return setting;
}

std::atomic<bool>& cudnn_setting() {
  static std::atomic<bool> setting{switched_on("TUTTI_CUDNN", true)};
  return setting;
}

}  // namespace

Float32Products float32_products() { return products_setting().load(std::memory_order_relaxed); }

void set_float32_products(Float32Products products) { products_setting().store(products, std::memory_order_relaxed); }

const char* name(Float32Products products) {
  switch (products) {
    case Float32Products::Full:
      return "float32";
    case Float32Products::Tf32:
      return "tf32";
    case Float32Products::Bf16:
      return "bf16";
  }
  throw std::logic_error("no such Float32Products");
}

bool cudnn_wanted() { return cudnn_setting().load(std::memory_order_relaxed); }

void set_cudnn_wanted(bool wanted) { cudnn_setting().store(wanted, std::memory_order_relaxed); }

}  // namespace tutti::tensor
