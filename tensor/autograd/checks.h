// Argument checks that the recorded operations share. Every text starts with the operation's name and shows both sides.
#pragma once

#include <tutti/tensor/autograd/variable.h>

namespace tutti::tensor {

/// "float32 (64, 10)"
std::string describe(const Tensor& tensor);
/// Throws std::invalid_argument: "<operation>: <a> and <b> <complaint>".
[[noreturn]] void refuse(const char* operation, const Tensor& a, const Tensor& b, const char* complaint);
/// Both devices are in the text.
void check_same_device(const char* operation, const Tensor& a, const Tensor& b);
/// One floating type and one device.
void check_same_type(const char* operation, const Tensor& a, const Tensor& b);
/// The above and one shape.
void check_same(const char* operation, const Tensor& a, const Tensor& b);
void check_floating(const char* operation, const Tensor& a);
void check_rank(const char* operation, const Tensor& a, int rank);

}  // namespace tutti::tensor
