// Tensor: data only. A shape and strides over shared storage; no gradients (those are autograd/variable.h).
//
// Copies are cheap and share the memory; clone() copies it. Views (reshape, narrow, transpose) share it too. Kernels
// take contiguous tensors; contiguous() packs a view. Memory comes from a caching allocator and goes back to it when
// the last tensor over it dies. Bad arguments throw std::invalid_argument with both shapes or types in the text.
// Thread-safety: as std::shared_ptr; the elements themselves are not guarded. What is computed on a GPU is under way
// when the function returns, and done when the host reads it (to(), item()).
#pragma once

#include <tutti/tensor/device.h>
#include <tutti/tensor/dtype.h>
#include <tutti/tensor/shape.h>

#include <memory>
#include <vector>

namespace tutti::tensor {

class Storage;  // storage.h: owned bytes on a device, 64-byte aligned

class Tensor {
 public:
  Tensor() = default;  // undefined: no storage; defined() is false

  static Tensor empty(const Shape& shape, DType dtype = DType::Float32, Device device = {});
  static Tensor zeros(const Shape& shape, DType dtype = DType::Float32, Device device = {});
  static Tensor full(const Shape& shape, double value, DType dtype = DType::Float32, Device device = {});
  template <typename T>
  static Tensor from(const Shape& shape, const std::vector<T>& values);  // throws unless values.size() == numel
  /// A tensor over memory that somebody else owns, e.g. a gradient bucket; `owner` keeps it alive.
  static Tensor over(void* memory, std::shared_ptr<void> owner, const Shape& shape, DType dtype, Device device = {});

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t numel() const { return shape_.numel(); }
  std::size_t nbytes() const;
  DType dtype() const { return dtype_; }
  Device device() const;
  std::int64_t stride(int axis) const;
  bool is_contiguous() const;
  bool shares_storage(const Tensor& other) const { return storage_ == other.storage_; }
  /// How many tensors share this memory: 1 = writing here surprises nobody.
  long use_count() const { return storage_.use_count(); }

  /// First element. Throws unless T is the element type and the tensor lies on the CPU.
  template <typename T>
  T* data();
  template <typename T>
  const T* data() const;
  /// The same as an address of its device, whatever type and device.
  void* raw();
  const void* raw() const;

  /// Same elements, other shape; one extent may be -1. A view if contiguous, else a packed copy.
  Tensor reshape(const Shape& shape) const;
  Tensor narrow(int axis, std::int64_t start, std::int64_t length) const;  // view
  Tensor transpose(int axis_a, int axis_b) const;                          // view
  Tensor contiguous() const;                                               // itself if contiguous already
  Tensor clone() const;                                                    // contiguous copy
  Tensor to(DType dtype) const;
  Tensor to(Device device) const;  // itself if it is there already, else a packed copy
  Tensor on_host() const;          // itself on any CPU device, else a packed copy on the CPU, complete on return
  /// The same elements under the name of another CPU device: for a block of memory that holds what several of them own
  /// (a gradient bucket). Throws std::invalid_argument unless both are CPU devices.
  Tensor shared_with(Device device) const;
  /// Moves the memory itself: every tensor that shares it is on `device` afterwards. For placing a model before it is
  /// used; what was recorded with it before is not to be run backwards. Throws std::logic_error for memory of another
  /// owner.
  void move_to(Device device);

  void fill(double value);
  /// Element-wise copy from a tensor of the same shape and type (any strides), which may be on another device.
  void copy_from(const Tensor& source);
  /// The one element as a double. Throws unless numel() == 1.
  double item() const;

 private:
  std::shared_ptr<Storage> storage_;
  Shape shape_;
  std::array<std::int64_t, kMaxRank> strides_{};
  std::int64_t offset_ = 0;  // elements
  DType dtype_ = DType::Float32;
};

}  // namespace tutti::tensor
