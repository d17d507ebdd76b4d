// Gradients that lie on a GPU: each bucket is summed over the ranks by a device all_reduce (device_all_reduce.h) on a
// stream and a thread of their own, while backward goes on in the main stream. The last bucket, which has no computing
// left to hide behind, is summed by the caller.
#pragma once

#include <tutti/tensor/device.h>
#include <tutti/trainer/data_parallel/gradient_exchange.h>

#include <memory>

namespace tutti::trainer {

/// Collective: makes a sub-group of its own. Buckets are memory of `device`.
std::unique_ptr<GradientExchange> make_device_exchange(comm::ProcessGroup& group, const ExchangePlan& plan,
                                                       tensor::Device device);

}  // namespace tutti::trainer
