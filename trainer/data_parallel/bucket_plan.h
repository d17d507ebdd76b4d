// BucketPlan: which gradients travel together, and where each lies in its bucket's memory.
//
// Pure functions of sizes and types: every rank that built the same model computes the same plan, and it can be tested
// without a network. Buckets follow the reverse of registration order, because backward finishes the last layers first;
// so bucket 0 is complete while most of backward is still to come, and its all_reduce hides behind it.
// Source of the idea: PyTorch DDP, https://pytorch.org/docs/stable/notes/ddp.html (there: 1 MiB, then 25 MiB).
#pragma once

#include <tutti/tensor/dtype.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tutti::trainer {

struct BucketLimits {
  std::size_t first_bucket_bytes = std::size_t{256} * 1024;  // smaller, so that communication starts early
  std::size_t bucket_cap_bytes = std::size_t{4} * 1024 * 1024;
};

struct ParameterSize {
  std::size_t count = 0;  // elements
  tensor::DType dtype = tensor::DType::Float32;
  bool is_whole = false;  // each element of the gradient comes from one rank: a sum that is exact as it is
};

/// One parameter's place: elements [offset, offset + count) of its bucket.
struct BucketSlot {
  std::size_t parameter = 0;  // index in registration order
  std::size_t offset = 0;
  std::size_t count = 0;
};

struct Bucket {
  tensor::DType dtype = tensor::DType::Float32;
  bool is_whole = false;  // as its parameters
  std::size_t count = 0;  // elements, padding between slots included
  std::vector<BucketSlot> slots;

  std::size_t nbytes() const { return count * tensor::size_of(dtype); }
};

/// Every parameter lies in exactly one bucket, and a bucket holds one type, of
/// whole gradients or of others. A bucket is closed by the parameter with
/// which it reaches its limit: a big weight travels with the biases before it, and no bucket is a crumb but the last.
/// Slots start at multiples of 64 bytes, so that kernels find the gradients aligned. Buckets are ordered by the moment
/// they are expected to be complete. Throws std::invalid_argument for a limit of 0.
std::vector<Bucket> plan_buckets(std::span<const ParameterSize> parameters, const BucketLimits& limits = {});

}  // namespace tutti::trainer
