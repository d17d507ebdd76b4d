// Matrix products on a GPU, by cuBLASLt, with bias and relu in the same pass.
//
// cuBLASLt thinks in columns: our row-major c (M, N) is its column-major c^T (N, M), so that c = op(a) op(b) becomes
// c^T = op(b)^T op(a)^T, and a bias over N, which is one number for each of its rows, is just what its epilogue adds.
// Which algorithm it takes for a shape is asked once a thread and remembered. It may cut long sums, in a fixed order:
// the same shape gives the same bits on the same card, but a row may depend on how many rows there are.
#include <tutti/tensor/cuda/cublaslt.h>
#include <tutti/tensor/cuda/cuda_kernels.h>
#include <tutti/tensor/cuda/launch.h>
#include <tutti/tensor/products.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace tutti::tensor::cuda {
namespace {

// NVIDIA's advice for cards of compute capability 9.0; older ones need less.
constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;

enum class Epilogue { None, Bias, Relu, BiasRelu };

// All that the choice of an algorithm depends on, in our row-major words.
struct ProductKey {
  int device;
  DType dtype;
  Float32Products products;
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
  Epilogue epilogue;
  std::uint32_t alignment;  // that all operands have, in bytes

  auto operator<=>(const ProductKey&) const = default;
};

void check_blas(cublasStatus_t status, const ProductKey& key, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error("gemm on cuda:" + std::to_string(key.device) + ": " + call + " failed for " +
                           name(key.dtype).data() + " (" + std::to_string(key.m) + ", " + std::to_string(key.k) +
                           ") x (" + std::to_string(key.k) + ", " + std::to_string(key.n) +
                           "): " + cublaslt().cublasLtGetStatusString(status));
}

cublasLtHandle_t handle_of(const ProductKey& key) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;  // may be used by several threads at once; never destroyed
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[key.device];
  if (handle == nullptr) check_blas(cublaslt().cublasLtCreate(&handle), key, "cublasLtCreate");
  return handle;
}

struct FreeLayout {
  void operator()(cublasLtMatrixLayout_t layout) const { cublaslt().cublasLtMatrixLayoutDestroy(layout); }
};
struct FreeOperation {
  void operator()(cublasLtMatmulDesc_t operation) const { cublaslt().cublasLtMatmulDescDestroy(operation); }
};
struct FreePreference {
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublaslt().cublasLtMatmulPreferenceDestroy(preference);
  }
};
template <typename Handle, typename Free>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Free>;

using Layout = Owned<cublasLtMatrixLayout_t, FreeLayout>;
using Description = Owned<cublasLtMatmulDesc_t, FreeOperation>;
using Preference = Owned<cublasLtMatmulPreference_t, FreePreference>;

// A product that is ready to run. left and right are cuBLASLt's first and second operand: our b and our a.
class Plan {
 public:
  Plan(const ProductKey& key, const void* bias) : key_(key) {
    make_operation();
    if (bias != nullptr) set_bias(bias);  // its alignment is part of the question below
    left_ = make_layout(key.transpose_b ? key.k : key.n, key.transpose_b ? key.n : key.k);
    right_ = make_layout(key.transpose_a ? key.m : key.k, key.transpose_a ? key.k : key.m);
    result_ = make_layout(key.n, key.m);
    choose();
  }

  void run(const Operation& op, Tensor& c, const Tensor& a, const Tensor& b, const Tensor& bias) {
    if (bias.defined()) set_bias(bias.raw());
    Tensor workspace;
    if (choice_.workspaceSize > 0) {
      workspace = Tensor::empty({static_cast<std::int64_t>(choice_.workspaceSize)}, DType::UInt8, c.device());
    }
    const double one = 1;
    const double zero = 0;
    const float one_single = 1;
    const float zero_single = 0;
    const bool single = key_.dtype == DType::Float32;
    const void* const alpha = single ? static_cast<const void*>(&one_single) : &one;
    const void* const none = single ? static_cast<const void*>(&zero_single) : &zero;
    check_blas(cublaslt().cublasLtMatmul(handle_of(key_), operation_.get(), alpha, b.raw(), left_.get(), a.raw(),
                                         right_.get(), key_.accumulate ? alpha : none, c.raw(), result_.get(), c.raw(),
                                         result_.get(), &choice_.algo, workspace.defined() ? workspace.raw() : nullptr,
                                         choice_.workspaceSize, op.stream()),
               key_, "cublasLtMatmul");
  }

 private:
  void make_operation() {
    cublasComputeType_t compute = CUBLAS_COMPUTE_64F;
    if (key_.dtype == DType::Float32) {
      compute = key_.products == Float32Products::Full   ? CUBLAS_COMPUTE_32F
                : key_.products == Float32Products::Tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                         : CUBLAS_COMPUTE_32F_FAST_16BF;
    }
    cublasLtMatmulDesc_t operation = nullptr;
    check_blas(cublaslt().cublasLtMatmulDescCreate(&operation, compute, type()), key_, "cublasLtMatmulDescCreate");
    operation_.reset(operation);
    const cublasOperation_t left = key_.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t right = key_.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, left);
    set(CUBLASLT_MATMUL_DESC_TRANSB, right);
    const cublasLtEpilogue_t epilogue = key_.epilogue == Epilogue::None   ? CUBLASLT_EPILOGUE_DEFAULT
                                        : key_.epilogue == Epilogue::Bias ? CUBLASLT_EPILOGUE_BIAS
                                        : key_.epilogue == Epilogue::Relu ? CUBLASLT_EPILOGUE_RELU
                                                                          : CUBLASLT_EPILOGUE_RELU_BIAS;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  }

  void set_bias(const void* bias) { set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias); }

  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check_blas(cublaslt().cublasLtMatmulDescSetAttribute(operation_.get(), attribute, &value, sizeof value), key_,
               "cublasLtMatmulDescSetAttribute");
  }

  cudaDataType_t type() const { return key_.dtype == DType::Float32 ? CUDA_R_32F : CUDA_R_64F; }

  Layout make_layout(std::int64_t rows, std::int64_t columns) const {
    cublasLtMatrixLayout_t layout = nullptr;
    check_blas(cublaslt().cublasLtMatrixLayoutCreate(&layout, type(), static_cast<std::uint64_t>(rows),
                                                     static_cast<std::uint64_t>(columns), rows),
               key_, "cublasLtMatrixLayoutCreate");
    return Layout(layout);
  }

  void choose() {
    cublasLtMatmulPreference_t raw = nullptr;
    check_blas(cublaslt().cublasLtMatmulPreferenceCreate(&raw), key_, "cublasLtMatmulPreferenceCreate");
    const Preference preference(raw);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_blas(cublaslt().cublasLtMatmulPreferenceSetAttribute(raw, attribute, &value, sizeof value), key_,
                 "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key_.alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key_.alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key_.alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key_.alignment);
    int found = 0;
    check_blas(cublaslt().cublasLtMatmulAlgoGetHeuristic(handle_of(key_), operation_.get(), left_.get(), right_.get(),
                                                         result_.get(), result_.get(), raw, 1, &choice_, &found),
               key_, "cublasLtMatmulAlgoGetHeuristic");
    check_blas(found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : choice_.state, key_, "cublasLtMatmulAlgoGetHeuristic");
  }

  ProductKey key_;
  Description operation_;
  Layout left_, right_, result_;
  cublasLtMatmulHeuristicResult_t choice_{};
};

std::uint32_t common_alignment(std::initializer_list<const void*> pointers) {
  std::uintptr_t bits = 256;
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return std::uint32_t{1} << std::countr_zero(bits);
}

// c (+)= op(a) op(b), then the epilogue. Neither c nor the sums are empty.
void product(const Operation& op, Tensor& c, const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
             bool accumulate, const Tensor& bias, Epilogue epilogue) {
  note(op.name(), op.device());
  const ProductKey key{
      .device = op.device(),
      .dtype = c.dtype(),
      .products = float32_products(),
      .m = c.shape()[0],
      .n = c.shape()[1],
      .k = a.shape()[transpose_a ? 0 : 1],
      .transpose_a = transpose_a,
      .transpose_b = transpose_b,
      .accumulate = accumulate,
      .epilogue = epilogue,
      .alignment = common_alignment({c.raw(), a.raw(), b.raw(), bias.defined() ? bias.raw() : nullptr})};
  static thread_local std::map<ProductKey, Plan> plans;
  auto plan = plans.find(key);
  if (plan == plans.end()) {
    plan = plans.try_emplace(key, key, bias.defined() ? bias.raw() : nullptr).first;
  }
  plan->second.run(op, c, a, b, bias);
}

}  // namespace

void gemm(Tensor& c, const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b, bool accumulate) {
  if (c.numel() == 0) return;
  const Operation op("gemm", c);
  with_float_type(c.dtype(), []<typename T>() {});  // refuses the others
  if (a.numel() == 0) {
    if (!accumulate) c.fill(0);
    return;
  }
  product(op, c, a, transpose_a, b, transpose_b, accumulate, {}, Epilogue::None);
}

void linear(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, bool relu) {
  if (y.numel() == 0) return;
  // The epilogues exist for float32 only.
  if (y.dtype() != DType::Float32 || x.numel() == 0 || (!bias.defined() && !relu)) {
    gemm(y, x, false, w, true, false);
    if (bias.defined() || relu) bias_activation(y, bias, relu);
    return;
  }
  const Epilogue epilogue = !bias.defined() ? Epilogue::Relu : relu ? Epilogue::BiasRelu : Epilogue::Bias;
  product(Operation("linear", y), y, x, false, w, true, false, bias, epilogue);
}

}  // namespace tutti::tensor::cuda
