// The ways behind device_collectives.h, and what they share. Private to trainer/device.
#pragma once

#include <tutti/trainer/device/device_collectives.h>

#include <cstddef>
#include <memory>
#include <string>

namespace tutti::trainer {

std::unique_ptr<DeviceCollectives> make_staged_collectives(comm::ProcessGroup& group, tensor::Device device,
                                                           std::size_t chunk_bytes);

/// nccl_library.cc and nccl_collectives.cc, or no_nccl.cc in a build without. Why NCCL cannot be used here; empty if it
/// can.
std::string against_nccl();
std::unique_ptr<DeviceCollectives> make_nccl_collectives(comm::ProcessGroup& group, tensor::Device device);

/// Throws std::invalid_argument unless `data` is contiguous on `device`; `what` names it in the text.
void check_device_tensor(const tensor::Tensor& data, tensor::Device device, const char* what);

/// Throws std::invalid_argument unless `whole` is as long as `blocks` times `block` and of its type.
void check_blocks(const tensor::Tensor& whole, const tensor::Tensor& block, int blocks, const char* what);

/// Throws std::invalid_argument unless `whole` can be cut into `ranks` equal blocks.
void check_divisible(const tensor::Tensor& whole, int ranks, const char* what);

}  // namespace tutti::trainer
