// The twin of nccl_collectives.cc for a build that found no NCCL.
#include <tutti/trainer/device/device_ways.h>

#include <stdexcept>

namespace tutti::trainer {

bool built_with_nccl() { return false; }

std::unique_ptr<DeviceCollectives> make_nccl_collectives(comm::ProcessGroup& /*group*/, tensor::Device /*device*/) {
  throw std::logic_error("NCCL was asked for in a build without it");
}

}  // namespace tutti::trainer
