#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>
#include <tutti/trainer/data_parallel/sharding/sharded_optimizer.h>
#include <tutti/trainer/tensor_comm.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace tutti::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct WholeCheckpoint {
  fs::path folder;
  Checkpoint contents;
  std::vector<std::pair<fs::path, std::string>> damaged;  // newer ones, and what is wrong with them
};

/// The newest that is whole; nothing if there is no checkpoint at all.
std::optional<WholeCheckpoint> newest_whole_checkpoint(const fs::path& dir) {
  WholeCheckpoint found;
  for (const fs::path& folder : checkpoints_in(dir)) {
    try {
      found.contents = read_checkpoint(folder);
      found.folder = folder;
      return found;
    } catch (const DamagedCheckpoint& error) {
      found.damaged.emplace_back(folder, error.what());
    }
  }
  if (found.damaged.empty()) return std::nullopt;
  throw std::runtime_error(
      "cannot resume: no checkpoint in " + dir.string() + " is whole. " + found.damaged.front().second +
      ". To begin anew, name another folder or leave out --resume " + "after moving this one away");
}

/// Loads, and gives everything about it that the other ranks need.
Json resume_here(const fs::path& dir, const std::map<std::string, std::string>& wanted, const NamedTensors& model,
                 const NamedTensors& optimizer, NamedTensors& exchange) {
  const auto found = newest_whole_checkpoint(dir);
  if (!found) return {};
  const CheckpointState& state = found->contents.state;
  const std::string differences = option_differences(state, wanted);
  if (!differences.empty()) {
    throw std::runtime_error("cannot resume from " + found->folder.string() + ": " + differences);
  }
  assign_tensors(model, found->contents.model, (found->folder / "model.safetensors").string());
  assign_tensors(optimizer, found->contents.optimizer, (found->folder / "optimizer.safetensors").string());
  exchange = found->contents.exchange;
  Json warnings = Json::array();
  for (const auto& [folder, damage] : found->damaged) {
    warnings.push_back(damage + "; set aside as " + set_aside(folder).filename().string() +
                       ", going on from the one before");
  }
  return {{"state", read_whole_file(found->folder / "state.json")},
          {"folder", found->folder.string()},
          {"warnings", warnings},
          {"exchange", !exchange.empty()}};
}

}  // namespace

std::string on_rank0(comm::ProcessGroup& group, const std::function<std::string()>& action) {
  Json outcome;
  if (group.rank() == 0) {
    try {
      outcome["result"] = action();
    } catch (const std::exception& error) {
      outcome["error"] = error.what();
    }
  }
  // A file name need not be UTF-8; a text with a replaced letter is better than none.
  const auto text = outcome.dump(-1, ' ', false, Json::error_handler_t::replace);
  const Json shared = Json::parse(broadcast_text(group, text, 0));
  if (shared.contains("error")) throw std::runtime_error(shared["error"].get<std::string>());
  return shared["result"].get<std::string>();
}

NamedTensors model_tensors(const nn::Module& model) {
  NamedTensors tensors;
  for (const auto& [name, parameter] : model.named_parameters()) tensors.emplace_back(name, parameter.data());
  for (const auto& [name, buffer] : model.named_buffers()) tensors.emplace_back(name, buffer);
  return tensors;
}

std::optional<ResumedCheckpoint> resume_checkpoint(comm::ProcessGroup& group, const std::filesystem::path& dir,
                                                   const std::map<std::string, std::string>& wanted,
                                                   const nn::Module& model, nn::Optimizer& optimizer) {
  NamedTensors of_model = model_tensors(model);
  const NamedTensors of_optimizer = full_optimizer_state(optimizer);
  ResumedCheckpoint resumed;
  const Json json = Json::parse(on_rank0(group, [&] {
    return resume_here(dir, wanted, of_model, of_optimizer, resumed.exchange)
        .dump(-1, ' ', false, Json::error_handler_t::replace);
  }));
  if (json.is_null()) return std::nullopt;
  for (auto& [name, tensor] : of_model) broadcast(group, tensor, 0);
  share_optimizer_state(group, optimizer, of_optimizer);
  resumed.folder = json["folder"].get<std::string>();
  static_cast<CheckpointState&>(resumed) = state_from_json(json["state"].get<std::string>(), resumed.folder);
  resumed.has_exchange = json["exchange"].get<bool>();
  resumed.warnings = json["warnings"].get<std::vector<std::string>>();
  return resumed;
}

namespace {

tensor::Tensor memory_for_all(const comm::ProcessGroup& group, const tensor::Tensor& own) {
  return tensor::Tensor::empty({std::int64_t{group.world_size()}, own.numel()}, own.dtype());
}

/// A tensor (ranks, elements), made of one of another number of ranks.
tensor::Tensor dealt_out(const tensor::Tensor& saved, std::int64_t ranks, bool is_error) {
  const std::int64_t count = saved.shape()[1];
  tensor::Tensor all = tensor::Tensor::zeros({ranks, count}, saved.dtype());
  const std::int64_t used = is_error ? saved.shape()[0] : 1;
  const float share = is_error ? 1.0F / static_cast<float>(ranks) : 1.0F;
  float* const first = all.data<float>();
  for (std::int64_t r = 0; r < used; ++r) {
    const float* const values = saved.data<float>() + r * count;
    for (std::int64_t i = 0; i < count; ++i) first[i] += values[i] * share;
  }
  for (std::int64_t r = 1; r < ranks; ++r) all.narrow(0, r, 1).copy_from(all.narrow(0, 0, 1));
  return all;
}

NamedTensors dealt_out(const NamedTensors& saved, std::int64_t ranks) {
  NamedTensors all;
  for (const auto& [name, tensor] : saved) {
    const bool fits = tensor.rank() != 2 || tensor.shape()[0] == ranks || tensor.shape()[0] == 0 ||
                      tensor.dtype() != tensor::DType::Float32;  // what does not fit, assign_tensors will name
    all.emplace_back(name, fits ? tensor : dealt_out(tensor.contiguous(), ranks, name.ends_with(".error")));
  }
  return all;
}

}  // namespace

NamedTensors gather_exchange_state(comm::ProcessGroup& group, GradientExchange* exchange) {
  NamedTensors all;
  if (exchange == nullptr) return all;
  for (auto& [name, own] : exchange->state()) {
    const bool root = group.rank() == 0;
    tensor::Tensor rows = root ? memory_for_all(group, own) : tensor::Tensor::empty({0}, own.dtype());
    group.gather(as_buffer(own), as_buffer(rows), 0);
    if (root) all.emplace_back(name, std::move(rows));
  }
  return all;
}

void scatter_exchange_state(comm::ProcessGroup& group, const NamedTensors& state, GradientExchange& exchange) {
  const bool root = group.rank() == 0;
  NamedTensors rows;
  auto own = exchange.state();
  for (auto& [name, tensor] : own) {
    rows.emplace_back(name, root ? memory_for_all(group, tensor) : tensor::Tensor::empty({0}, tensor.dtype()));
  }
  on_rank0(group, [&] {
    assign_tensors(rows, dealt_out(state, group.world_size()), "the checkpoint's exchange.safetensors");
    return std::string();
  });
  for (std::size_t i = 0; i < own.size(); ++i) {
    group.scatter(as_buffer(rows[i].second), as_buffer(own[i].second), 0);
  }
}

namespace {

bool differ_in_first_dimension(const tensor::Shape& a, const tensor::Shape& b) {
  if (a.rank() != b.rank() || a.rank() == 0 || a[0] == b[0]) return false;
  for (int i = 1; i < a.rank(); ++i)
    if (a[i] != b[i]) return false;
  return true;
}

}  // namespace

std::vector<std::string> load_parameters(nn::Module& module, const std::filesystem::path& file, bool other_classes) {
  Safetensors content = read_safetensors(file);
  NamedTensors wanted = model_tensors(module);
  const auto given_for = [&](const std::string& name) {
    return std::ranges::find_if(content.tensors, [&](const auto& entry) { return entry.first == name; });
  };
  std::erase_if(wanted, [&](const auto& entry) {
    return entry.first.ends_with("num_batches_tracked") && given_for(entry.first) == content.tensors.end();
  });
  std::vector<std::string> kept;
  const auto parameters = module.named_parameters();
  for (std::size_t i = parameters.size() - std::min<std::size_t>(2, parameters.size());
       other_classes && i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    const auto given = given_for(name);
    if (given == content.tensors.end()) continue;
    if (!differ_in_first_dimension(given->second.shape(), parameter.data().shape())) continue;
    content.tensors.erase(given);
    std::erase_if(wanted, [&name = name](const auto& entry) { return entry.first == name; });
    kept.push_back(name);
  }
  assign_tensors(wanted, content.tensors, file.string() + " does not fit " + module.describe());
  return kept;
}

}  // namespace tutti::trainer
