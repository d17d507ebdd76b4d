// What batch norm does where several holders have parts of a batch: their numbers become those of the whole batch.
//
// Each holder sends its own numbers once and joins all of them in the same order, so that all end with the same bits.
// Per channel that is two doubles times the number of holders. Both functions block until all holders have called them.
#pragma once

#include <tutti/tensor/autograd/image_functions.h>

#include <cstdint>

namespace tutti::tensor {

/// `mean` and `variance` (C), over `rows` rows of this holder, become those over all rows, by the formula of Chan,
/// Golub and LeVeque ("Updating formulae and a pairwise algorithm for computing sample variances", 1979). With 0 rows
/// their contents do not matter. Returns how many rows there are in all.
std::int64_t join_statistics(BatchHolders& holders, std::int64_t rows, Tensor& mean, Tensor& variance);

/// The same from `sums` (4, C), as KernelTable::batch_norm_moments makes them of deviations from `centre`, which is the
/// same for all holders: the bits do not depend on how the rows are dealt to them.
std::int64_t join_moments(BatchHolders& holders, std::int64_t rows, const Tensor& sums, const Tensor& centre,
                          Tensor& mean, Tensor& variance);

/// `a` and `b` (C) become their sums over all holders; those of exact sums are exact.
void join_sums(BatchHolders& holders, Tensor& a, Tensor& b);

}  // namespace tutti::tensor
