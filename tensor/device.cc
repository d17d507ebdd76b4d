#include <tutti/tensor/device.h>

#include <charconv>
#include <optional>
#include <stdexcept>

namespace tutti::tensor {
namespace {

/// The index in "<kind>:<index>"; 0 for "<kind>" alone.
std::optional<int> index_of(std::string_view text, std::string_view kind) {
  if (!text.starts_with(kind)) return std::nullopt;
  text.remove_prefix(kind.size());
  if (text.empty()) return 0;
  if (text.front() != ':') return std::nullopt;
  text.remove_prefix(1);
  int index = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, index);
  if (error != std::errc{} || end != last || index < 0) return std::nullopt;
  return index;
}

}  // namespace

Device parse_device(std::string_view text) {
  if (const auto index = index_of(text, "cpu")) return {Device::Kind::Cpu, *index};
  if (const auto index = index_of(text, "cuda")) return {Device::Kind::Cuda, *index};
  throw std::invalid_argument("unknown device \"" + std::string(text) +
                              "\": use cpu or cuda, or one of several by its index, e.g. cpu:1 or cuda:1");
}

std::string name(Device device) {
  if (device == Device{}) return "cpu";
  return (device.kind == Device::Kind::Cpu ? "cpu:" : "cuda:") + std::to_string(device.index);
}

}  // namespace tutti::tensor
