#include <dlfcn.h>
#include <tutti/tensor/cuda/shared_library.h>

#include <stdexcept>

namespace tutti::tensor::cuda {

SharedLibrary::SharedLibrary(const std::string& name) {
  for (const std::string& path : {name, std::string(TUTTI_CUDA_LIBRARY_DIR) + "/" + name}) {
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      name_ = path;
      complaint_.clear();
      return;
    }
    const char* const why = dlerror();
    if (complaint_.empty()) complaint_ = why != nullptr ? why : name + " could not be loaded";
  }
}

void* SharedLibrary::address(const char* symbol) const {
  void* const found = handle_ != nullptr ? dlsym(handle_, symbol) : nullptr;
  if (found != nullptr) return found;
  throw std::runtime_error((handle_ != nullptr ? name_ + " has no " + symbol : complaint_) +
                           "; install the version of the library that this program was built for");
}

}  // namespace tutti::tensor::cuda
