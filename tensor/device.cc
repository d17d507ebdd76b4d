#include <tutti/tensor/device.h>

#include <charconv>
#include <stdexcept>

namespace tutti::tensor {

Device parse_device(std::string_view text) {
  if (text == "cpu") return {Device::Kind::Cpu, 0};
  if (text == "cuda") return {Device::Kind::Cuda, 0};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const char* first = text.data() + kPrefix.size();
    const char* last = text.data() + text.size();
    int index = 0;
    const auto [end, error] = std::from_chars(first, last, index);
    if (error == std::errc{} && end == last && index >= 0) return {Device::Kind::Cuda, index};
  }
  throw std::invalid_argument("unknown device \"" + std::string(text) +
                              "\": use cpu, cuda or cuda:<index>, e.g. cuda:1");
}

std::string name(Device device) {
  if (device.kind == Device::Kind::Cpu) return "cpu";
  return "cuda:" + std::to_string(device.index);
}

}  // namespace tutti::tensor
