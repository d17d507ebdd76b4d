// The linear algebra of PowerSGD. Pure functions; rows lie one behind the other.
#pragma once

#include <cstdint>

namespace tutti::trainer {

/// Makes the columns of p (rows, columns) orthonormal, in their order; one that depends on those before it becomes
/// zero. Modified Gram-Schmidt in double, in an order that depends on the shape only.
void orthonormalise_columns(float* p, std::int64_t rows, std::int64_t columns);

/// to (rows, columns) = p (rows, rank) q (rank, columns), each element summed in the order of the rank.
void product(float* to, const float* p, const float* q, std::int64_t rows, std::int64_t rank, std::int64_t columns);

/// The same, subtracted from `to`.
void subtract_product(float* to, const float* p, const float* q, std::int64_t rows, std::int64_t rank,
                      std::int64_t columns);

}  // namespace tutti::trainer
