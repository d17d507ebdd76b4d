#include <tutti/tensor/cuda/cudnn.h>
#include <tutti/tensor/cuda/cudnn_library.h>
#include <tutti/tensor/cuda/runtime.h>
#include <tutti/tensor/products.h>

#include <array>
#include <map>
#include <tuple>

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

// A convolution that is ready to run. Descriptors live as long as the process, as plans do: one set for each shape.
struct CudnnPlan {
  bool possible = false;
  cudnnTensorDescriptor_t x = nullptr;
  cudnnTensorDescriptor_t y = nullptr;
  cudnnTensorDescriptor_t bias = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t convolution = nullptr;
  cudnnActivationDescriptor_t relu = nullptr;
  int algorithm = 0;
  std::size_t workspace = 0;

  CudnnPlan(const ConvExtents& e, Direction direction, cudnnHandle_t handle, int device) {
    describe(e, device);
    possible = choose(direction, handle);
  }

 private:
  void describe(const ConvExtents& e, int device) {
    const Cudnn& c = *cudnn();
    const auto check = [&](cudnnStatus_t status, const char* call) { check_cudnn(status, call, device); };
    check(c.cudnnCreateTensorDescriptor(&x), "cudnnCreateTensorDescriptor");
    check(c.cudnnCreateTensorDescriptor(&y), "cudnnCreateTensorDescriptor");
    check(c.cudnnCreateTensorDescriptor(&bias), "cudnnCreateTensorDescriptor");
    check(c.cudnnCreateFilterDescriptor(&w), "cudnnCreateFilterDescriptor");
    check(c.cudnnCreateConvolutionDescriptor(&convolution), "cudnnCreateConvolutionDescriptor");
    check(c.cudnnCreateActivationDescriptor(&relu), "cudnnCreateActivationDescriptor");
    const auto image = [&](cudnnTensorDescriptor_t to, int batch, int channels, int rows, int columns) {
      check(c.cudnnSetTensor4dDescriptor(to, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, batch, channels, rows, columns),
            "cudnnSetTensor4dDescriptor");
    };
    image(x, e.batch, e.channels * e.groups, e.rows.input, e.columns.input);
    image(y, e.batch, e.outputs * e.groups, e.rows.output, e.columns.output);
    image(bias, 1, e.outputs * e.groups, 1, 1);
    check(c.cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, e.outputs * e.groups, e.channels,
                                       e.rows.kernel, e.columns.kernel),
          "cudnnSetFilter4dDescriptor");
    check(c.cudnnSetConvolution2dDescriptor(convolution, e.rows.padding, e.columns.padding, e.rows.stride,
                                            e.columns.stride, e.rows.dilation, e.columns.dilation,
                                            CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    check(c.cudnnSetConvolutionGroupCount(convolution, e.groups), "cudnnSetConvolutionGroupCount");
    check(c.cudnnSetConvolutionMathType(
              convolution, float32_products() == Float32Products::Full ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH),
          "cudnnSetConvolutionMathType");
    check(c.cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0),
          "cudnnSetActivationDescriptor");
  }

  bool choose(Direction direction, cudnnHandle_t handle) {
    const Cudnn& c = *cudnn();
    constexpr int kAsked = 8;
    int found = 0;
    if (direction == Direction::Forward) {
      std::array<cudnnConvolutionFwdAlgoPerf_t, kAsked> offers{};
      const cudnnStatus_t status =
          c.cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, y, kAsked, &found, offers.data());
      return status == CUDNN_STATUS_SUCCESS && take(offers, found);
    }
    if (direction == Direction::Input) {
      std::array<cudnnConvolutionBwdDataAlgoPerf_t, kAsked> offers{};
      const cudnnStatus_t status =
          c.cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w, y, convolution, x, kAsked, &found, offers.data());
      return status == CUDNN_STATUS_SUCCESS && take(offers, found);
    }
    std::array<cudnnConvolutionBwdFilterAlgoPerf_t, kAsked> offers{};
    const cudnnStatus_t status =
        c.cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x, y, convolution, w, kAsked, &found, offers.data());
    return status == CUDNN_STATUS_SUCCESS && take(offers, found);
  }

  // The offers come fastest first.
  template <typename Offers>
  bool take(const Offers& offers, int found) {
    for (int i = 0; i < found; ++i) {
      const auto& offer = offers[static_cast<std::size_t>(i)];
      if (offer.status != CUDNN_STATUS_SUCCESS || offer.determinism != CUDNN_DETERMINISTIC) continue;
      if (offer.memory > kMostWorkspace) continue;
      // A type of mathematics beyond the one asked for would round the factors.
      if (float32_products() == Float32Products::Full && offer.mathType != CUDNN_FMA_MATH &&
          offer.mathType != CUDNN_DEFAULT_MATH) {
        continue;
      }
      if (cudnn()->cudnnSetConvolutionMathType(convolution, offer.mathType) != CUDNN_STATUS_SUCCESS) continue;
      algorithm = static_cast<int>(offer.algo);
      workspace = offer.memory;
      return true;
    }
    return false;
  }
};

// One pass under way: cuDNN is entered, the plan found and its scratch memory taken.
class CudnnPass {
 public:
  CudnnPass(const ConvExtents& extents, Direction direction, Device device)
      : guard_(device.index), session_(device.index), device_(device.index) {
    static auto* const plans = new std::map<PlanKey, CudnnPlan>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    const PlanKey key = key_of(extents, direction, device.index);
    auto plan = plans->find(key);
    if (plan == plans->end()) {
      plan = plans->try_emplace(key, extents, direction, session_.handle(), device.index).first;
    }
    plan_ = &plan->second;
    if (plan_->possible && plan_->workspace > 0) {
      workspace_ = Tensor::empty({static_cast<std::int64_t>(plan_->workspace)}, DType::UInt8, device);
    }
  }

  bool possible() const { return plan_->possible; }
  const CudnnPlan& plan() const { return *plan_; }
  cudnnHandle_t handle() const { return session_.handle(); }
  void* workspace() { return workspace_.defined() ? workspace_.raw() : nullptr; }
  void check(cudnnStatus_t status, const char* call) const {
    note(call, device_);
    check_cudnn(status, call, device_);
  }

 private:
  DeviceGuard guard_;
  CudnnSession session_;
  int device_;
  const CudnnPlan* plan_ = nullptr;
  Tensor workspace_;
};

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
  {
    CudnnPass pass(extents, Direction::Forward, y.device());
    if (!pass.possible()) return false;
    const CudnnPlan& p = pass.plan();
    const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(p.algorithm);
    if (bias.defined() && relu) {
      const cudnnStatus_t status = cudnn()->cudnnConvolutionBiasActivationForward(
          pass.handle(), &kOne, p.x, x.raw(), p.w, filters.raw(), p.convolution, algorithm, pass.workspace(),
          p.workspace, &kZero, p.y, y.raw(), p.bias, bias.raw(), p.relu, p.y, y.raw());
      if (status == CUDNN_STATUS_SUCCESS) return true;  // else not offered for this algorithm: in two steps
    }
    pass.check(cudnn()->cudnnConvolutionForward(pass.handle(), &kOne, p.x, x.raw(), p.w, filters.raw(), p.convolution,
                                                algorithm, pass.workspace(), p.workspace, &kZero, p.y, y.raw()),
               "cudnnConvolutionForward");
  }
  if (!bias.defined() && !relu) return true;
  const std::int64_t outputs = y.shape()[3];
  Tensor matrix = y.reshape({y.numel() / outputs, outputs});
  kernels(y.device()).bias_activation(matrix, bias, relu);
  return true;
}

bool cudnn_input_gradient(Tensor& dx, const Tensor& dy, const Tensor& w, const ConvExtents& extents, bool accumulate) {
  if (!applies(dx)) return false;
  const Tensor filters = channels_last(w).contiguous();
  CudnnPass pass(extents, Direction::Input, dx.device());
  if (!pass.possible()) return false;
  const CudnnPlan& p = pass.plan();
  pass.check(
      cudnn()->cudnnConvolutionBackwardData(pass.handle(), &kOne, p.w, filters.raw(), p.y, dy.raw(), p.convolution,
                                            static_cast<cudnnConvolutionBwdDataAlgo_t>(p.algorithm), pass.workspace(),
                                            p.workspace, accumulate ? &kOne : &kZero, p.x, dx.raw()),
      "cudnnConvolutionBackwardData");
  return true;
}

bool cudnn_weight_gradient(Tensor& dw, const Tensor& dy, const Tensor& x, const ConvExtents& extents, bool accumulate) {
  if (!applies(dw)) return false;
  const std::int64_t taps = dw.shape()[2] * dw.shape()[3];
  const bool in_place = taps == 1;
  Tensor filters = in_place ? dw : Tensor::empty({dw.shape()[0], taps, dw.shape()[1]}, dw.dtype(), dw.device());
  {
    CudnnPass pass(extents, Direction::Weight, dw.device());
    if (!pass.possible()) return false;
    const CudnnPlan& p = pass.plan();
    pass.check(cudnn()->cudnnConvolutionBackwardFilter(pass.handle(), &kOne, p.x, x.raw(), p.y, dy.raw(), p.convolution,
                                                       static_cast<cudnnConvolutionBwdFilterAlgo_t>(p.algorithm),
                                                       pass.workspace(), p.workspace,
                                                       in_place && accumulate ? &kOne : &kZero, p.w, filters.raw()),
               "cudnnConvolutionBackwardFilter");
  }
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
         std::to_string(version % 100);
}

}  // namespace tutti::tensor::cuda
