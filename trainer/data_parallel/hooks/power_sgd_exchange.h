// The comm hook powersgd: each gradient matrix as a product of two thin ones (comm_hooks.h).
//
// A step, for a matrix M (n, m) = gradient + error of this rank, with the summed Q (r, m) of the step before:
//   P = M Q^T, summed over ranks, made orthonormal;  Q = P^T M, summed over ranks;  the gradient becomes P Q,
// and the error M - P (P^T M): this rank's own part of what the sum lacks, so that over the steps nothing is lost. With
// r >= rank of the summed M nothing is.
// Source: Vogels, Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
// Optimization", https://arxiv.org/abs/1905.13727
#pragma once

#include <tutti/trainer/data_parallel/gradient_exchange.h>

namespace tutti::trainer {

struct PowerSgdOptions {
  int rank = 4;       // r, at least 1
  double saving = 2;  // a matrix travels whole unless n m >= saving r (n + m)
};

/// A parameter's matrix has its first axis as rows. All ranks end with the same bits also where processors differ: what
/// all do after the sums is plain arithmetic in a fixed order.
std::unique_ptr<GradientExchange> make_power_sgd_exchange(comm::ProcessGroup& group, const ExchangePlan& plan,
                                                          const PowerSgdOptions& options);

}  // namespace tutti::trainer
