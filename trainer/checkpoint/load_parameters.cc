#include <tutti/trainer/checkpoint/checkpoint.h>
#include <tutti/trainer/checkpoint/load_parameters.h>
#include <tutti/trainer/checkpoint/shared_checkpoint.h>

#include <set>
#include <stdexcept>

namespace tutti::trainer {
namespace {

using Names = std::vector<std::string>;

/// "3 of them: a, b, ..." for an error text.
std::string listed(const Names& names) {
  constexpr std::size_t kMost = 5;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kMost; ++i) text += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
  return text + (names.size() > kMost ? " and " + std::to_string(names.size() - kMost) + " more" : "");
}

/// The names in `all` that are not in `others`.
Names without(const NamedTensors& all, const NamedTensors& others) {
  std::set<std::string> known;
  for (const auto& [name, tensor] : others) known.insert(name);
  Names left;
  for (const auto& [name, tensor] : all) {
    if (known.count(name) == 0) left.push_back(name);
  }
  return left;
}

}  // namespace

void load_parameters(nn::Module& module, const std::filesystem::path& file) {
  const Safetensors content = read_safetensors(file);
  NamedTensors wanted = model_tensors(module);
  const Names absent = without(wanted, content.tensors);
  const std::set<std::string> absent_names(absent.begin(), absent.end());
  std::erase_if(wanted, [&](const auto& entry) {
    return entry.first.ends_with("num_batches_tracked") && absent_names.count(entry.first) > 0;
  });
  const Names missing = without(wanted, content.tensors);
  const Names extra = without(content.tensors, wanted);
  if (!missing.empty() || !extra.empty()) {
    std::string text = file.string() + " does not fit " + module.describe() + ":";
    if (!missing.empty()) text += " it lacks " + listed(missing);
    if (!extra.empty()) text += std::string(missing.empty() ? "" : ";") + " the model has no " + listed(extra);
    throw std::runtime_error(text);
  }
  assign_tensors(wanted, content.tensors, file.string());
}

}  // namespace tutti::trainer
