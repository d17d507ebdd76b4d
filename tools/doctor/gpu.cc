#include <tutti/tensor/device.h>
#include <tutti/tensor/products.h>
#include <tutti/tools/doctor/host_checks.h>

#include <filesystem>
#include <sstream>

namespace tutti::doctor {
namespace {

/// "NVIDIA H100" from the driver's information file.
std::string model_of(const std::string& information) {
  std::istringstream lines(information);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("Model:")) return line.substr(line.find_first_not_of(" \t", 6));
  return "unknown model";
}

}  // namespace

Findings check_gpu(const System& system) {
  std::string models;
  int count = 0;
  std::error_code failed;
  const std::string folder = "/proc/driver/nvidia/gpus";
  for (std::filesystem::directory_iterator entry(system.root + folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string card = entry->path().filename().string();
    models += (count++ == 0 ? "" : ", ") + model_of(system.read(folder + "/" + card + "/information"));
  }
  const int usable = tensor::cuda_available() ? tensor::cuda_device_count() : 0;
  if (count == 0 && usable == 0) return {{"GPU", "none; ranks compute on the processor"}};
  const std::string value =
      std::to_string(count) + " (" + models + "), " + std::to_string(usable) + " usable from here";
  if (usable == 0)
    return {{"GPU", value, Verdict::Warn,
             tensor::cuda_status() + "; see that the build has CUDA and that CUDA_VISIBLE_DEVICES hides none"}};
  return {{"GPU", value}, {"GPU products", tensor::describe_products()}};
}

}  // namespace tutti::doctor
