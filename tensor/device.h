// Where a tensor's memory is.
#pragma once

#include <string>
#include <string_view>

namespace tutti::tensor {

struct Device {
  enum class Kind { Cpu, Cuda };
  Kind kind = Kind::Cpu;
  int index = 0;

  bool operator==(const Device&) const = default;
};

/// "cpu", "cuda" or "cuda:1". Throws std::invalid_argument listing the accepted forms.
Device parse_device(std::string_view text);
std::string name(Device device);

/// False in a build without CUDA (no_cuda/ is linked instead) and on a machine without a usable GPU; cuda_status() says
/// which of the two, in one sentence.
bool cuda_available();
int cuda_device_count();
std::string cuda_status();

}  // namespace tutti::tensor
