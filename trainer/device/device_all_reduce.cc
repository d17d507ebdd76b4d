#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/side_stream.h>
#include <tutti/trainer/device/device_ways.h>
#include <tutti/trainer/tensor_comm.h>

#include <cstdlib>
#include <set>
#include <stdexcept>
#include <vector>

namespace tutti::trainer {
namespace {

/// Collective. Whether no two ranks share a card.
bool own_card_each(comm::ProcessGroup& group, tensor::Device device) {
  const tensor::cuda::Card card = tensor::cuda::card_of(device);
  const auto cards = all_gather_texts(group, std::string(card.uuid.begin(), card.uuid.end()));
  return std::set<std::string>(cards.begin(), cards.end()).size() == cards.size();
}

/// The first rank's reason, with its number; empty if no rank has one.
std::string of_any_rank(comm::ProcessGroup& group, const std::string& reason) {
  const std::vector<std::string> all = all_gather_texts(group, reason);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!all[r].empty()) return "rank " + std::to_string(r) + ": " + all[r];
  }
  return "";
}

std::string wanted_way(const DeviceAllReduceOptions& options) {
  if (!options.way.empty()) return options.way;
  const char* text = std::getenv("TUTTI_DEVICE_COMM");
  return text != nullptr && *text != '\0' ? text : "auto";
}

[[noreturn]] void refuse(const std::string& way, const std::string& reason) {
  throw std::runtime_error("device collectives cannot go by \"" + way + "\": " + reason +
                           "; leave TUTTI_DEVICE_COMM at auto, or use staged");
}

}  // namespace

std::unique_ptr<DeviceAllReduce> make_device_all_reduce(comm::ProcessGroup& group, tensor::Device device,
                                                        const DeviceAllReduceOptions& options) {
  tensor::cuda::require(device);
  const std::string way = wanted_way(options);
  // The library is not opened unless it would be of use, or was asked for by name.
  const bool wanted = way == "nccl" || (way == "auto" && group.world_size() > 1);
  const bool own_cards = own_card_each(group, device);
  const std::string against = of_any_rank(group, !wanted     ? "it is not wanted"
                                                 : own_cards ? against_nccl()
                                                             : "several ranks share a card");
  if (way == "nccl" && !against.empty()) refuse(way, against);
  if (way != "nccl" && way != "staged" && way != "auto") refuse(way, "there is no such way (auto, nccl, staged)");
  if (against.empty()) return make_nccl_all_reduce(group, device);
  return make_staged_all_reduce(group, device, options.chunk_bytes);
}

void check_device_tensor(const tensor::Tensor& data, tensor::Device device) {
  if (!data.defined()) throw std::invalid_argument("all_reduce: an undefined tensor");
  if (data.device() != device) {
    throw std::invalid_argument("all_reduce: a tensor on " + tensor::name(data.device()) + " for collectives on " +
                                tensor::name(device) + "; use to()");
  }
  if (!data.is_contiguous()) {
    throw std::invalid_argument("all_reduce: a tensor of shape " + data.shape().to_string() +
                                " that is not contiguous; use contiguous() first");
  }
}

}  // namespace tutti::trainer
