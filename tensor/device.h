// Where a tensor's memory is.
//
// cpu (the same as cpu:0), cpu:1, cpu:2, ... all are this process's memory and cores. The number is a label that is
// kept apart as strictly as GPUs are: an operation takes tensors of one device, and only to() and copy_from() cross. So
// a program written for several devices runs, and has its mistakes found, on a machine without a GPU.
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

/// "cpu", "cpu:1", "cuda" or "cuda:1"; without an index it is the first. Throws std::invalid_argument listing the
/// accepted forms. Whether there is such a device is found out when it is used: cuda_status().
Device parse_device(std::string_view text);
/// "cpu" for the first one, else "cpu:1"; "cuda:0".
std::string name(Device device);

/// False in a build without CUDA (no_cuda/ is linked instead) and on a machine without a usable GPU; cuda_status() says
/// which of the two, in one sentence.
bool cuda_available();
int cuda_device_count();
std::string cuda_status();

}  // namespace tutti::tensor
