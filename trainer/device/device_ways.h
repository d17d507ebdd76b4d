// The ways behind device_all_reduce.h, and what they share. Private to trainer/device.
#pragma once

#include <tutti/trainer/device/device_all_reduce.h>

#include <cstddef>
#include <memory>
#include <string>

namespace tutti::trainer {

std::unique_ptr<DeviceAllReduce> make_staged_all_reduce(comm::ProcessGroup& group, tensor::Device device,
                                                        std::size_t chunk_bytes);

/// nccl_all_reduce.cc, or no_nccl.cc in a build without. Why NCCL cannot be used here; empty if it can.
std::string against_nccl();
std::unique_ptr<DeviceAllReduce> make_nccl_all_reduce(comm::ProcessGroup& group, tensor::Device device);

/// Throws std::invalid_argument unless `data` is contiguous on `device`.
void check_device_tensor(const tensor::Tensor& data, tensor::Device device);

}  // namespace tutti::trainer
