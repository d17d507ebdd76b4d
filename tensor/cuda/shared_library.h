// A shared library that is opened at its first use.
//
// cuBLAS and cuDNN are opened, not linked: linked, they cost every start of every program 0.1 s and 220 MB of address
// space (measured with an empty main), also where nobody computes on a GPU; and a program that was built with them must
// run on a machine without. Types and enumerators come from the libraries' own headers, so only names are looked up
// here, and tests/tensor looks up every one of them without a GPU.
//
// Thread-safety: immutable after construction. Blocks while the library is loaded (cuBLASLt: tenths of a second).
#pragma once

#include <string>

namespace tutti::tensor::cuda {

class SharedLibrary {
 public:
  /// `name`, e.g. "libcudnn.so.9", is looked for as the dynamic linker does, and then in the folder
  /// that the build found it in.
  explicit SharedLibrary(const std::string& name);

  bool loaded() const { return handle_ != nullptr; }
  /// Why it is not loaded, in the dynamic linker's words; empty if it is.
  const std::string& complaint() const { return complaint_; }

  /// Sets `function` to the symbol. Throws std::runtime_error naming the library and the symbol.
  template <typename F>
  void find(F*& function, const char* symbol) const {
    function = reinterpret_cast<F*>(address(symbol));
  }

 private:
  void* address(const char* symbol) const;

  void* handle_ = nullptr;  // stays open until the process ends: libraries that hold device state do not unload well
  std::string name_;
  std::string complaint_;
};

}  // namespace tutti::tensor::cuda
