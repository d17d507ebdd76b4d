// The emulated cuBLASLt, and the table that tensor/cuda/gemm.cc finds it through.
#include <cublasLt.h>
#include <tutti/tensor/cuda/cublaslt.h>

#include <cstring>
#include <map>

struct cublasLtContext {};

struct EmulatedMatmulDesc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t transpose_a = CUBLAS_OP_N;
  cublasOperation_t transpose_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct EmulatedMatrixLayout {
  cudaDataType type;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t leading;
};

struct EmulatedMatmulPreference {
  std::size_t workspace = 0;
  std::map<int, std::uint32_t> alignments;
};

namespace {

// Asked for with every product, so that callers without one are found.
constexpr std::size_t kWorkspace = 1024;

// As the tensor cores take factors: rounded to nearest, `bits` of the mantissa are left.
template <int bits>
float shortened(float value) {
  if (value != value) return value;
  constexpr int kDropped = 23 - bits;
  std::uint32_t word = 0;
  std::memcpy(&word, &value, sizeof word);
  word += (std::uint32_t{1} << (kDropped - 1)) - 1 + ((word >> kDropped) & 1);
  word &= ~((std::uint32_t{1} << kDropped) - 1);
  std::memcpy(&value, &word, sizeof value);
  return value;
}

template <typename T>
T factor(T value, cublasComputeType_t compute) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (compute == CUBLAS_COMPUTE_32F_FAST_TF32) return shortened<10>(value);
    if (compute == CUBLAS_COMPUTE_32F_FAST_16BF) return shortened<7>(value);
  }
  return value;
}

template <typename T>
struct Job {
  EmulatedMatmulDesc operation;
  const T* a;
  const T* b;
  const T* c;
  T* d;
  std::int64_t a_leading, b_leading, c_leading, d_leading;
  std::int64_t rows, columns, inner;
  T alpha, beta;
};

template <typename T>
void multiply(Job<T> job) {
  const EmulatedMatmulDesc& op = job.operation;
  const std::int64_t all = job.rows * job.columns;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < all; i += step) {
    const std::int64_t row = i % job.rows;
    const std::int64_t column = i / job.rows;
    double sum = 0;
    for (std::int64_t k = 0; k < job.inner; ++k) {
      const T left = job.a[op.transpose_a == CUBLAS_OP_T ? k + row * job.a_leading : row + k * job.a_leading];
      const T right = job.b[op.transpose_b == CUBLAS_OP_T ? column + k * job.b_leading : k + column * job.b_leading];
      sum += static_cast<double>(factor(left, op.compute)) * static_cast<double>(factor(right, op.compute));
    }
    T value = job.alpha * static_cast<T>(sum);
    if (job.beta != T{0}) value += job.beta * job.c[row + column * job.c_leading];
    if ((op.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) value += static_cast<const T*>(op.bias)[row];
    if ((op.epilogue & CUBLASLT_EPILOGUE_RELU) != 0 && value <= T{0}) value = T{0};
    job.d[row + column * job.d_leading] = value;
  }
}

bool fits(const EmulatedMatmulDesc& op, const EmulatedMatrixLayout& a, const EmulatedMatrixLayout& b,
          const EmulatedMatrixLayout& c, const EmulatedMatrixLayout& d) {
  for (const EmulatedMatrixLayout* layout : {&a, &b, &c, &d}) {
    if (layout->type != op.scale || layout->leading < layout->rows || layout->rows < 1 || layout->columns < 1) {
      return false;
    }
  }
  const bool ta = op.transpose_a == CUBLAS_OP_T;
  const bool tb = op.transpose_b == CUBLAS_OP_T;
  return (ta ? a.columns : a.rows) == d.rows && (tb ? b.rows : b.columns) == d.columns &&
         (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) && c.rows == d.rows && c.columns == d.columns &&
         (op.compute == CUBLAS_COMPUTE_64F) == (op.scale == CUDA_R_64F);
}

bool supported(const EmulatedMatmulDesc& op) {
  return op.scale == CUDA_R_32F || op.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
}

template <typename T>
cublasStatus_t enqueue(const Job<T>& job, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>((job.rows * job.columns + 1023) / 1024);
  config.blockDim = 32;  // each of which computes up to 32 elements
  config.stream = stream;
  return cudaLaunchKernelEx(&config, multiply<T>, job) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                      : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static cublasLtContext context;
  *handle = &context;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "no such status";
}

std::size_t cublasLtGetVersion() { return 130100; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *operation = new EmulatedMatmulDesc{.compute = compute, .scale = scale};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  const auto take = [&](auto& to) {
    if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&to, value, sizeof to);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(operation->transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(operation->transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(operation->epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(operation->bias);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  *layout =
      new EmulatedMatrixLayout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new EmulatedMatmulPreference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    if (bytes != sizeof preference->workspace) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&preference->workspace, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  std::uint32_t& alignment = preference->alignments[attribute];
  if (bytes != sizeof alignment) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&alignment, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (asked < 1 || !fits(*operation, *a, *b, *c, *d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*operation) || preference->workspace < kWorkspace) return CUBLAS_STATUS_NOT_SUPPORTED;
  *results = {};
  results->workspaceSize = kWorkspace;
  // An algorithm may rely on the alignment that it was chosen for; this one remembers it for the check.
  const auto promised = preference->alignments.find(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  results->algo.data[0] = promised != preference->alignments.end() ? promised->second : 256;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  if (handle == nullptr || workspace == nullptr || workspace_bytes < kWorkspace || algorithm == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!fits(*operation, *a_layout, *b_layout, *c_layout, *d_layout)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!supported(*operation)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if ((operation->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0 && operation->bias == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (const void* pointer : {a, b, c, static_cast<const void*>(d)}) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % algorithm->data[0] != 0) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::int64_t inner = operation->transpose_a == CUBLAS_OP_T ? a_layout->rows : a_layout->columns;
  const auto job = [&]<typename T>(T) {
    return Job<T>{*operation,
                  static_cast<const T*>(a),
                  static_cast<const T*>(b),
                  static_cast<const T*>(c),
                  static_cast<T*>(d),
                  a_layout->leading,
                  b_layout->leading,
                  c_layout->leading,
                  d_layout->leading,
                  d_layout->rows,
                  d_layout->columns,
                  inner,
                  *static_cast<const T*>(alpha),
                  *static_cast<const T*>(beta)};
  };
  return operation->scale == CUDA_R_32F ? enqueue(job(float{}), stream) : enqueue(job(double{}), stream);
}

namespace tutti::tensor::cuda {

const CublasLt& cublaslt() {
#define TUTTI_NAME(function) ::function,
  static constexpr CublasLt table{TUTTI_CUBLASLT_FUNCTIONS(TUTTI_NAME)};
#undef TUTTI_NAME
  return table;
}

std::string cublaslt_status() { return "the emulated cuBLASLt"; }

}  // namespace tutti::tensor::cuda
