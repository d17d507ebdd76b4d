#include <tutti/comm/base/error.h>
#include <tutti/trainer/device/device_call.h>
#include <tutti/trainer/tensor_comm.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace tutti::trainer {
namespace {

static_assert(std::is_trivially_copyable_v<DeviceCall>);

std::string text_of(const DeviceCall& call) {
  std::string text = std::string(comm::name(call.operation)) + " seq " + std::to_string(call.sequence);
  if (comm::is_reduction(call.operation)) text += " " + std::string(comm::name(call.reduce_op));
  text += " " + std::string(tensor::name(call.dtype)) + " x " + std::to_string(call.count);
  return call.root < 0 ? text : text + ", root " + std::to_string(call.root);
}

auto compared(const DeviceCall& call) {
  return std::tie(call.operation, call.reduce_op, call.dtype, call.root, call.sequence, call.count);
}

void check_arguments(const comm::ProcessGroup& group, const DeviceCall& call) {
  if (call.root >= group.world_size()) {
    throw std::invalid_argument(text_of(call) + ": the group has ranks 0 to " + std::to_string(group.world_size() - 1));
  }
  if (!comm::is_reduction(call.operation)) return;
  const std::string refusal = comm::refusal(call.reduce_op, to_comm(call.dtype));
  const bool known = call.reduce_op <= comm::ReduceOp::Max;  // sum, avg, prod, min, max
  if (!known || !refusal.empty()) {
    throw std::invalid_argument(text_of(call) + ": " +
                                (known ? refusal : "collectives on a GPU know sum, avg, prod, min and max"));
  }
}

}  // namespace

void agree(comm::ProcessGroup& group, tensor::Device device, const DeviceCall& mine) {
  check_arguments(group, mine);
  std::vector<DeviceCall> all(static_cast<std::size_t>(group.world_size()));
  group.all_gather(comm::ConstBuffer(&mine, sizeof mine, comm::DType::UInt8),
                   comm::Buffer{all.data(), sizeof mine * all.size(), comm::DType::UInt8});
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (compared(all[r]) == compared(all[0])) continue;
    throw comm::Error(comm::ErrorCode::Mismatch, "on " + tensor::name(device) + " rank 0 called " + text_of(all[0]) +
                                                     ", but rank " + std::to_string(r) + " called " + text_of(all[r]));
  }
}

}  // namespace tutti::trainer
