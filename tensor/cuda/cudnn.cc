#include <tutti/tensor/cuda/cudnn.h>
#include <tutti/tensor/cuda/cudnn_library.h>
#include <tutti/tensor/cuda/runtime.h>
#include <tutti/tensor/products.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <span>

namespace tutti::tensor::cuda {
namespace {

enum class Direction { Forward, Input, Weight };

// All that the choice of an algorithm depends on.
using PlanKey = std::array<int, 19>;

PlanKey key_of(const ConvExtents& e, Direction direction, int device) {
  return {device,
          static_cast<int>(direction),
          static_cast<int>(float32_products()),
          e.batch,
          e.channels,
          e.outputs,
          e.groups,
          e.rows.input,
          e.rows.output,
          e.rows.kernel,
          e.rows.stride,
          e.rows.padding,
          e.rows.dilation,
          e.columns.input,
          e.columns.output,
          e.columns.kernel,
          e.columns.stride,
          e.columns.padding,
          e.columns.dilation};
}

// More scratch memory than this is not worth what an algorithm saves by it.
constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;

/// Shapes and directions that our own kernels compute, since cuDNN refused them.
std::atomic<int> refused_shapes = 0;
void note_refused_shape() { ++refused_shapes; }

// A convolution that is ready to run. Descriptors live as long as the process, as plans do: one set for each shape.
struct CudnnPlan {
  cudnnTensorDescriptor_t x = nullptr;
  cudnnTensorDescriptor_t y = nullptr;
  cudnnTensorDescriptor_t bias = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnActivationDescriptor_t relu = nullptr;
  /// Fastest first, by cuDNN's guess; one may still be refused when it is to run, and is dropped then. With none left
  /// our own kernels compute.
  struct Offer {
    int algorithm;
    std::size_t workspace;
    cudnnMathType_t mathematics;
    bool with_relu = true;  // until refused
  };
  std::deque<Offer> offers;

  CudnnPlan(const ConvExtents& e, Direction direction, cudnnHandle_t handle) {
    if (describe(e)) ask(direction, handle);
    if (offers.empty()) note_refused_shape();
  }

 private:
  /// False for what cuDNN does not take, as more than 2^31 elements.
  bool describe(const ConvExtents& e) {
    const Cudnn& c = *cudnn();
    const auto image = [&](cudnnTensorDescriptor_t to, int batch, int channels, int rows, int columns) {
      return c.cudnnSetTensor4dDescriptor(to, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, batch, channels, rows, columns);
    };
    const cudnnStatus_t steps[] = {
        c.cudnnCreateTensorDescriptor(&x),
        c.cudnnCreateTensorDescriptor(&y),
        c.cudnnCreateTensorDescriptor(&bias),
        c.cudnnCreateFilterDescriptor(&w),
        c.cudnnCreateConvolutionDescriptor(&convolution),
        c.cudnnCreateActivationDescriptor(&relu),
        image(x, e.batch, e.channels * e.groups, e.rows.input, e.columns.input),
        image(y, e.batch, e.outputs * e.groups, e.rows.output, e.columns.output),
        image(bias, 1, e.outputs * e.groups, 1, 1),
        c.cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, e.outputs * e.groups, e.channels,
                                     e.rows.kernel, e.columns.kernel),
        c.cudnnSetConvolution2dDescriptor(convolution, e.rows.padding, e.columns.padding, e.rows.stride,
                                          e.columns.stride, e.rows.dilation, e.columns.dilation,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        c.cudnnSetConvolutionGroupCount(convolution, e.groups),
        c.cudnnSetConvolutionMathType(
            convolution, float32_products() == Float32Products::Full ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH),
        c.cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0)};
    return std::ranges::all_of(steps, [](cudnnStatus_t status) { return status == CUDNN_STATUS_SUCCESS; });
  }

  void ask(Direction direction, cudnnHandle_t handle) {
    const Cudnn& c = *cudnn();
    if (direction == Direction::Forward) {
      ask_by<cudnnConvolutionFwdAlgoPerf_t>(c.cudnnGetConvolutionForwardAlgorithm_v7, handle, x, w, convolution, y);
    } else if (direction == Direction::Input) {
      ask_by<cudnnConvolutionBwdDataAlgoPerf_t>(c.cudnnGetConvolutionBackwardDataAlgorithm_v7, handle, w, y,
                                                convolution, x);
    } else {
      ask_by<cudnnConvolutionBwdFilterAlgoPerf_t>(c.cudnnGetConvolutionBackwardFilterAlgorithm_v7, handle, x, y,
                                                  convolution, w);
    }
  }

  template <typename Found, typename Ask, typename... Arguments>
  void ask_by(const Ask& ask, const Arguments&... arguments) {
    std::array<Found, 8> found{};
    int count = 0;
    if (ask(arguments..., static_cast<int>(found.size()), &count, found.data()) != CUDNN_STATUS_SUCCESS) return;
    for (const Found& offer : std::span(found).first(static_cast<std::size_t>(count))) {
      if (offer.status != CUDNN_STATUS_SUCCESS || offer.determinism != CUDNN_DETERMINISTIC) continue;
      if (offer.memory > kMostWorkspace) continue;
      // A type of mathematics beyond the one asked for would round the factors.
      if (float32_products() == Float32Products::Full && offer.mathType != CUDNN_FMA_MATH) continue;
      offers.push_back({static_cast<int>(offer.algo), offer.memory, offer.mathType});
    }
  }
};

CudnnPlan& plan_of(const ConvExtents& extents, Direction direction, int device, cudnnHandle_t handle) {
  static auto* const plans = new std::map<PlanKey, CudnnPlan>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return plans->try_emplace(key_of(extents, direction, device), extents, direction, handle).first->second;
}

/// By its kind: cuDNN 9 has finer codes below CUDNN_STATUS_NOT_SUPPORTED, as CUDNN_STATUS_NOT_SUPPORTED_SHAPE.
bool is_refusal(cudnnStatus_t status) {
  const int kind = CUDNN_STATUS_CATEGORY(status);
  return kind == CUDNN_STATUS_NOT_SUPPORTED || kind == CUDNN_STATUS_BAD_PARAM;
}

/// Runs `convolve(handle, plan, offer, workspace)`, which returns cuDNN's status, with the first offer of the plan that
/// is not refused; false if none is left. `what` is a literal.
template <typename Convolve>
bool run_cudnn(const char* what, const ConvExtents& extents, Direction direction, Device device,
               const Convolve& convolve) {
  use_device(device.index);
  const CudnnSession session(device.index);  // locks the device's plans
  CudnnPlan& plan = plan_of(extents, direction, device.index, session.handle());
  while (!plan.offers.empty()) {
    CudnnPlan::Offer& offer = plan.offers.front();
    Tensor workspace;
    if (offer.workspace > 0)
      workspace = Tensor::empty({static_cast<std::int64_t>(offer.workspace)}, DType::UInt8, device);
    cudnnStatus_t status = cudnn()->cudnnSetConvolutionMathType(plan.convolution, offer.mathematics);
    note(what, device.index);
    if (status == CUDNN_STATUS_SUCCESS)
      status = convolve(session.handle(), plan, offer, workspace.defined() ? workspace.raw() : nullptr);
    if (status == CUDNN_STATUS_SUCCESS) return true;
    if (!is_refusal(status)) check_cudnn(status, what, device.index);
    plan.offers.pop_front();
    if (plan.offers.empty()) note_refused_shape();
  }
  return false;
}

bool applies(const Tensor& tensor) { return tensor.dtype() == DType::Float32 && cudnn_wanted() && cudnn() != nullptr; }

// (O, C, KH, KW) as (O, taps, C); the same memory for a kernel of 1 x 1.
Tensor channels_last(const Tensor& w) {
  const Shape& shape = w.shape();
  return w.reshape({shape[0], shape[1], shape[2] * shape[3]}).transpose(1, 2);
}

constexpr float kOne = 1;
constexpr float kZero = 0;

}  // namespace

bool cudnn_conv2d(Tensor& y, const Tensor& x, const Tensor& w, const Tensor& bias, const ConvExtents& extents,
                  bool relu) {
  if (!applies(y)) return false;
  const Tensor filters = channels_last(w).contiguous();
  bool whole = !bias.defined() && !relu;
  const auto convolve = [&](cudnnHandle_t handle, const CudnnPlan& p, CudnnPlan::Offer& offer, void* workspace) {
    const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(offer.algorithm);
    if (bias.defined() && relu && offer.with_relu) {
      offer.with_relu = whole =
          cudnn()->cudnnConvolutionBiasActivationForward(
              handle, &kOne, p.x, x.raw(), p.w, filters.raw(), p.convolution, algorithm, workspace, offer.workspace,
              &kZero, p.y, y.raw(), p.bias, bias.raw(), p.relu, p.y, y.raw()) == CUDNN_STATUS_SUCCESS;
      if (whole) return CUDNN_STATUS_SUCCESS;  // else in two steps
    }
    return cudnn()->cudnnConvolutionForward(handle, &kOne, p.x, x.raw(), p.w, filters.raw(), p.convolution, algorithm,
                                            workspace, offer.workspace, &kZero, p.y, y.raw());
  };
  if (!run_cudnn("cudnnConvolutionForward", extents, Direction::Forward, y.device(), convolve)) return false;
  if (whole) return true;
  const std::int64_t outputs = y.shape()[3];
  Tensor matrix = y.reshape({y.numel() / outputs, outputs});
  kernels(y.device()).bias_activation(matrix, bias, relu);
  return true;
}

bool cudnn_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvExtents& extents, bool accumulate) {
  if (!applies(dx)) return false;
  const Tensor filters = channels_last(w).contiguous();
  const auto convolve = [&](cudnnHandle_t handle, const CudnnPlan& p, CudnnPlan::Offer& offer, void* workspace) {
    return cudnn()->cudnnConvolutionBackwardData(handle, &kOne, p.w, filters.raw(), p.y, dy.raw(), p.convolution,
                                                 static_cast<cudnnConvolutionBwdDataAlgo_t>(offer.algorithm), workspace,
                                                 offer.workspace, accumulate ? &kOne : &kZero, p.x, dx.raw());
  };
  return run_cudnn("cudnnConvolutionBackwardData", extents, Direction::Input, dx.device(), convolve);
}

bool cudnn_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvExtents& extents, bool accumulate) {
  if (!applies(dw)) return false;
  const std::int64_t taps = dw.shape()[2] * dw.shape()[3];
  const bool in_place = taps == 1;
  Tensor filters = in_place ? dw : Tensor::empty({dw.shape()[0], taps, dw.shape()[1]}, dw.dtype(), dw.device());
  const auto convolve = [&](cudnnHandle_t handle, const CudnnPlan& p, CudnnPlan::Offer& offer, void* workspace) {
    return cudnn()->cudnnConvolutionBackwardFilter(handle, &kOne, p.x, x.raw(), p.y, dy.raw(), p.convolution,
                                                   static_cast<cudnnConvolutionBwdFilterAlgo_t>(offer.algorithm),
                                                   workspace, offer.workspace, in_place && accumulate ? &kOne : &kZero,
                                                   p.w, filters.raw());
  };
  if (!run_cudnn("cudnnConvolutionBackwardFilter", extents, Direction::Weight, dw.device(), convolve)) return false;
  if (in_place) return true;
  const KernelTable& k = kernels(dw.device());
  const Tensor turned = filters.transpose(1, 2);
  Tensor target = dw.reshape({dw.shape()[0], dw.shape()[1], taps});
  if (accumulate) {
    k.add(target, target, turned.contiguous());
  } else {
    k.copy(target, turned);
  }
  return true;
}

std::string convolution_status() {
  if (!cudnn_wanted()) return "our own kernels (cuDNN is not wanted: TUTTI_CUDNN=0)";
  if (cudnn() == nullptr) return "our own kernels (" + cudnn_complaint() + ")";
  const std::size_t version = cudnn()->cudnnGetVersion();  // 91900 is 9.19.0
  return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100) +
         (refused_shapes > 0 ? ", " + std::to_string(refused_shapes) + " shapes by our own kernels" : "");
}

}  // namespace tutti::tensor::cuda
