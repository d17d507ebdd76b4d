#include <tutti/comm/base/error.h>
#include <tutti/comm/transport/shm/join.h>
#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/cuda/peers.h>
#include <tutti/trainer/device/device_ways.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace tutti::trainer {
namespace {

/// What the choice depends on, of one rank.
struct RankDevice {
  std::string host;
  tensor::cuda::Card card;
};

std::vector<RankDevice> devices_of_all(comm::ProcessGroup& group, tensor::Device device) {
  const tensor::cuda::Card card = tensor::cuda::card_of(device);
  std::string text(card.uuid.begin(), card.uuid.end());
  text += comm::host_identity();
  std::vector<RankDevice> all;
  for (const std::string& other : all_gather_texts(group, text)) {
    RankDevice one{.host = other.substr(std::min(other.size(), card.uuid.size())), .card = {}};
    std::copy_n(other.begin(), std::min(other.size(), one.card.uuid.size()), one.card.uuid.begin());
    all.push_back(std::move(one));
  }
  return all;
}

bool own_card_each(const std::vector<RankDevice>& all) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (all[i].card == all[j].card) return false;
    }
  }
  return true;
}

/// Why these ranks cannot go by "peer"; empty if this rank finds no reason.
std::string no_peers(const std::vector<RankDevice>& all, tensor::Device device) {
  if (all.size() > static_cast<std::size_t>(tensor::cuda::kMostPeers)) {
    return std::to_string(all.size()) + " ranks are more than " + std::to_string(tensor::cuda::kMostPeers);
  }
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].host != comm::host_identity()) return "rank " + std::to_string(r) + " is on another host";
    if (!tensor::cuda::reaches(device, all[r].card)) {
      return "rank " + std::to_string(r) + "'s GPU cannot be reached from " + tensor::name(device);
    }
  }
  return "";
}

/// The library is not opened unless it would be of use, or was asked for by name.
std::string no_nccl(const std::vector<RankDevice>& all, const std::string& way) {
  if (way == "peer" || way == "staged" || (way == "auto" && all.size() == 1)) return "it is not wanted";
  return own_card_each(all) ? against_nccl() : "several ranks share a card";
}

/// The first rank's reason, with its number; empty if no rank has one.
std::string of_any_rank(comm::ProcessGroup& group, const std::string& reason) {
  const std::vector<std::string> all = all_gather_texts(group, reason);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!all[r].empty()) return "rank " + std::to_string(r) + ": " + all[r];
  }
  return "";
}

std::string wanted_way(const DeviceCollectivesOptions& options) {
  if (!options.way.empty()) return options.way;
  const char* text = std::getenv("TUTTI_DEVICE_COMM");
  return text != nullptr && *text != '\0' ? text : "auto";
}

[[noreturn]] void refuse(const std::string& way, const std::string& reason) {
  throw std::runtime_error("device collectives cannot go by \"" + way + "\": " + reason +
                           "; leave TUTTI_DEVICE_COMM at auto, or use staged");
}

}  // namespace

std::unique_ptr<DeviceCollectives> make_device_collectives(comm::ProcessGroup& group, tensor::Device device,
                                                           const DeviceCollectivesOptions& options) {
  tensor::cuda::require(device);
  const std::string way = wanted_way(options);
  const std::vector<RankDevice> all = devices_of_all(group, device);
  const std::string reason_against_nccl = of_any_rank(group, no_nccl(all, way));
  const std::string against_peers = of_any_rank(group, no_peers(all, device));
  if (way == "nccl" || (way == "auto" && reason_against_nccl.empty())) {
    if (!reason_against_nccl.empty()) refuse(way, reason_against_nccl);
    return make_nccl_collectives(group, device);
  }
  if (way == "peer" || (way == "auto" && against_peers.empty())) {
    if (!against_peers.empty()) refuse(way, against_peers);
    return make_peer_collectives(group, device, options.chunk_bytes);
  }
  if (way != "staged" && way != "auto") refuse(way, "there is no such way (auto, nccl, peer, staged)");
  return make_staged_collectives(group, device, options.chunk_bytes);
}

void check_device_tensor(const tensor::Tensor& data, tensor::Device device, const char* what) {
  if (!data.defined()) throw std::invalid_argument(std::string(what) + ": an undefined tensor");
  if (data.device() != device) {
    throw std::invalid_argument(std::string(what) + ": a tensor on " + tensor::name(data.device()) +
                                " for collectives on " + tensor::name(device) + "; use to()");
  }
  if (!data.is_contiguous()) {
    throw std::invalid_argument(std::string(what) + ": a tensor of shape " + data.shape().to_string() +
                                " that is not contiguous; use contiguous() first");
  }
}

void check_divisible(const tensor::Tensor& whole, int ranks, const char* what) {
  if (whole.numel() % ranks == 0) return;
  throw std::invalid_argument(std::string(what) + ": " + std::to_string(whole.numel()) + " elements for " +
                              std::to_string(ranks) + " ranks");
}

void check_blocks(const tensor::Tensor& whole, const tensor::Tensor& block, int blocks, const char* what) {
  if (whole.numel() == block.numel() * blocks && whole.dtype() == block.dtype()) return;
  throw std::invalid_argument(std::string(what) + ": " + std::to_string(whole.numel()) + " elements of " +
                              std::string(tensor::name(whole.dtype())) + " for " + std::to_string(blocks) +
                              " blocks of " + std::to_string(block.numel()) + " of " +
                              std::string(tensor::name(block.dtype())));
}

}  // namespace tutti::trainer
