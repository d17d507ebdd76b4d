// The twin of nccl_all_reduce.cc for a build that found no NCCL.
#include <tutti/trainer/device/device_ways.h>

#include <stdexcept>

namespace tutti::trainer {

std::string against_nccl() { return "this build found no NCCL"; }

std::unique_ptr<DeviceAllReduce> make_nccl_all_reduce(comm::ProcessGroup& /*group*/, tensor::Device /*device*/) {
  throw std::logic_error("NCCL was asked for in a build without it");
}

}  // namespace tutti::trainer
