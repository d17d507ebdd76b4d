#include <tutti/tensor/cuda/shared_library.h>
#include <tutti/trainer/device/device_ways.h>
#include <tutti/trainer/device/nccl_library.h>

#include <stdexcept>

namespace tutti::trainer {
namespace {

Nccl load() {
  const tensor::cuda::SharedLibrary library("libnccl.so." + std::to_string(NCCL_MAJOR));
  if (!library.loaded()) throw std::runtime_error("NCCL cannot be used: " + library.complaint());
  Nccl table;
#define TUTTI_FIND(function) library.find(table.function, #function);
  TUTTI_NCCL_FUNCTIONS(TUTTI_FIND)
#undef TUTTI_FIND
  return table;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl table = load();  // a load that throws is tried again by the next caller
  return table;
}

std::string against_nccl() {
  try {
    (void)nccl();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

}  // namespace tutti::trainer
