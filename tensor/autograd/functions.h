// The recorded operations. Each checks shapes and types and throws std::invalid_argument with both in the text.
// float32 and float64 alike. Shapes in comments: N batch, I inputs, O outputs, C classes.
#pragma once

#include <tutti/tensor/autograd/variable.h>

namespace tutti::tensor {

enum class Activation { None, Relu };
enum class Reduction { Mean, Sum };

Variable add(const Variable& a, const Variable& b);  // same shape
Variable mul(const Variable& a, const Variable& b);  // same shape, element-wise
Variable scale(const Variable& a, double factor);
Variable sum(const Variable& a);                        // -> ()
Variable mean(const Variable& a);                       // -> ()
Variable matmul(const Variable& a, const Variable& b);  // (N, I) x (I, O) -> (N, O)
Variable relu(const Variable& a);
Variable reshape(const Variable& a, const Shape& shape);
Variable flatten(const Variable& a);  // (N, ...) -> (N, rest)

/// y = activation(x w^T + b), fused. x (N, I), w (O, I), b (O) or undefined -> (N, O).
Variable linear(const Variable& x, const Variable& w, const Variable& b, Activation activation = Activation::None);

Variable log_softmax(const Variable& logits);  // (N, C) -> (N, C), over C

/// Cross entropy of softmax(logits). logits (N, C), targets int64 (N) -> (). Throws naming the row for a target outside
/// [0, C). Source: https://pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html
Variable cross_entropy(const Variable& logits, const Tensor& targets, Reduction reduction = Reduction::Mean);

/// Squared error. prediction and target of one shape -> ().
Variable mse_loss(const Variable& prediction, const Tensor& target, Reduction reduction = Reduction::Mean);

}  // namespace tutti::tensor
