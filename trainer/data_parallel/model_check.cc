#include <tutti/trainer/data/digest.h>
#include <tutti/trainer/data_parallel/model_check.h>
#include <tutti/trainer/tensor_comm.h>

#include <sstream>
#include <stdexcept>
#include <vector>

namespace tutti::trainer {
namespace {

std::string description(const char* kind, const std::string& name, const tensor::Tensor& tensor) {
  return std::string(kind) + " \"" + name + "\" " + std::string(tensor::name(tensor.dtype())) + " " +
         tensor.shape().to_string();
}

/// One line per parameter and buffer.
std::string description(const nn::Module& model) {
  std::string text;
  for (const auto& [name, parameter] : model.named_parameters()) {
    text += description("parameter", name, parameter.data()) + "\n";
  }
  for (const auto& [name, buffer] : model.named_buffers()) text += description("buffer", name, buffer) + "\n";
  return text;
}

std::string difference(const std::string& rank0, const std::string& other, int rank) {
  std::istringstream lines0(rank0), lines1(other);
  std::string line0, line1;
  for (int index = 0;; ++index) {
    const bool more0 = static_cast<bool>(std::getline(lines0, line0));
    const bool more1 = static_cast<bool>(std::getline(lines1, line1));
    if (more0 && more1 && line0 == line1) continue;
    return "rank " + std::to_string(rank) + " built another model than rank 0; entry " + std::to_string(index) +
           " is the first that differs: rank 0 has " + (more0 ? line0 : "no such entry") + ", rank " +
           std::to_string(rank) + " has " + (more1 ? line1 : "no such entry") +
           "; build the model with the same options on every rank";
  }
}

}  // namespace

void check_same_model(comm::ProcessGroup& group, const nn::Module& model) {
  if (group.world_size() == 1) return;
  const std::string mine = description(model);
  const std::vector<std::string> sums = all_gather_texts(group, Digest().add(mine).hex());
  for (int rank = 1; rank < group.world_size(); ++rank) {
    if (sums[static_cast<std::size_t>(rank)] == sums[0]) continue;
    // All ranks see the same sums, so all come here together.
    const std::string rank0 = broadcast_text(group, mine, 0);
    const std::string other = broadcast_text(group, mine, rank);
    throw std::runtime_error(difference(rank0, other, rank));
  }
}

std::string parameter_sha256(const nn::Module& model) {
  Digest sum;
  for (const auto& [name, parameter] : model.named_parameters()) {
    const tensor::Tensor packed = parameter.data().contiguous().on_host();
    sum.add(description("parameter", name, packed) + "\n").add(packed.raw(), packed.nbytes());
  }
  return sum.hex();
}

std::string agreed_parameter_sha256(comm::ProcessGroup& group, const nn::Module& model) {
  const std::string mine = parameter_sha256(model);
  if (group.world_size() == 1) return mine;
  const std::vector<std::string> sums = all_gather_texts(group, mine);
  std::string differing;
  for (std::size_t rank = 1; rank < sums.size(); ++rank) {
    if (sums[rank] != sums[0]) differing += (differing.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (!differing.empty()) {
    throw std::runtime_error("the parameters are not the same on all ranks: those of rank(s) " + differing +
                             " differ from rank 0's; the model was changed outside of DataParallel on some rank");
  }
  return mine;
}

}  // namespace tutti::trainer
