// The recorded operations. Each checks shapes and types and throws std::invalid_argument with both in the text.
// float32 and float64 alike. Shapes in comments: N batch, I inputs, O outputs, C classes.
#pragma once

#include <tutti/tensor/autograd/variable.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace tutti::tensor {

class BatchHolders;  // image_functions.h

enum class Activation { None, Relu };
/// WideSum: a Sum in float64, also of a float32 loss. Those of cross_entropy and mse_loss are exact below 2^20, to
/// 2^-32 a term: they do not depend on how samples are divided into batches. On a GPU it is Sum.
enum class Reduction { Mean, Sum, WideSum };

Variable add(const Variable& a, const Variable& b);  // same shape
Variable sub(const Variable& a, const Variable& b);  // same shape
Variable mul(const Variable& a, const Variable& b);  // same shape, element-wise
Variable div(const Variable& a, const Variable& b);  // same shape, element-wise
Variable scale(const Variable& a, double factor);
Variable sum(const Variable& a);   // -> ()
Variable mean(const Variable& a);  // -> ()
/// Over the given axes (negative: from the end), which stay with extent 1 if keepdim is true. No axes: over all.
Variable sum(const Variable& a, const std::vector<int>& axes, bool keepdim = false);
Variable mean(const Variable& a, const std::vector<int>& axes, bool keepdim = false);
Variable matmul(const Variable& a, const Variable& b);  // (N, I) x (I, O) -> (N, O)
Variable relu(const Variable& a);
Variable reshape(const Variable& a, const Shape& shape);
Variable flatten(const Variable& a);  // (N, ...) -> (N, rest)
/// Axis i of the result is axis axes[i] of a (negative: from the end). A view; operations pack it when they read it.
Variable permute(const Variable& a, const std::vector<int>& axes);
/// One behind the other along `axis`; the other extents are equal. At most 64 inputs.
Variable concat(const std::vector<Variable>& inputs, int axis);

/// The same values on another device; the gradient moves back. a itself if it is there already.
Variable to(const Variable& a, Device device);

struct Margin {
  std::int64_t before = 0;
  std::int64_t after = 0;
};
/// margins[i] elements of `value` around axis i; one margin for each axis.
Variable pad(const Variable& a, const std::vector<Margin>& margins, double value = 0);

/// x (N, ...) with row i times factors (N)[i], which get no gradient.
Variable scale_rows(const Variable& x, const Tensor& factors);

// Activations, element-wise. NaN stays NaN.
Variable relu6(const Variable& a);  // min(max(a, 0), 6)
Variable silu(const Variable& a);   // a sigmoid(a)
Variable sigmoid(const Variable& a);
Variable tanh(const Variable& a);

/// Zeroes each element of x (N, ...) with probability p and multiplies the rest by 1 / (1 - p). Element j of row i is
/// kept when number j of KeyedStream(keys[i], layer) (keyed_stream.h) is at least p 2^32: the mask of a sample depends
/// on nothing but its key and the layer's number. keys int64 (N). p = 0 returns x itself. For training; in evaluation
/// it is not called. Source: Srivastava et al., JMLR 15 (2014), https://jmlr.org/papers/v15/srivastava14a.html
Variable dropout(const Variable& x, double p, const Tensor& keys, std::uint64_t layer);

/// y = activation(x w^T + b), fused. x (N, I), w (O, I), b (O) or undefined -> (N, O).
/// With `holders` x (float32, on the CPU) is this one's part of their batch, whose rows are dealt to them in turn.
/// Backward then blocks until all are there; each holder's gradient of w has some rows, which are those of the whole
/// batch, and zeros: their sum has the same bits for any number of holders.
Variable linear(const Variable& x, const Variable& w, const Variable& b, Activation activation = Activation::None,
                std::shared_ptr<BatchHolders> holders = nullptr);

Variable softmax(const Variable& logits);      // over the last axis, any rank but 0
Variable log_softmax(const Variable& logits);  // (N, C) -> (N, C), over C

/// Cross entropy of softmax(logits). logits (N, C), targets int64 (N) -> (). label_smoothing in [0, 1] is shared by all
/// classes, the rest is the target's. Throws naming the row for a target outside [0, C).
/// Source: https://pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
Variable cross_entropy(const Variable& logits, const Tensor& targets, Reduction reduction = Reduction::Mean,
                       double label_smoothing = 0);

/// -log_probabilities (N, C) at targets int64 (N) -> (), so that nll_loss(log_softmax(x), t) is cross_entropy(x, t).
/// Throws as cross_entropy does.
Variable nll_loss(const Variable& log_probabilities, const Tensor& targets, Reduction reduction = Reduction::Mean);

/// Squared error. prediction and target of one shape -> ().
Variable mse_loss(const Variable& prediction, const Tensor& target, Reduction reduction = Reduction::Mean);

}  // namespace tutti::tensor
