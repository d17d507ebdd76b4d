#include <tutti/tensor/cuda/cuda.h>
#include <tutti/tensor/ops.h>
#include <tutti/tensor/storage.h>
#include <tutti/tensor/tensor.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace tutti::tensor {
namespace {

using Strides = std::array<std::int64_t, kMaxRank>;

Strides contiguous_strides(const Shape& shape) {
  Strides strides{};
  const std::span<const std::int64_t> extents = shape.extents();
  std::int64_t step = 1;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    strides[axis] = step;
    step *= std::max<std::int64_t>(extents[axis], 1);
  }
  return strides;
}

std::size_t checked_bytes(const Shape& shape, DType dtype) {
  for (const std::int64_t extent : shape.extents()) {
    if (extent < 0) {
      throw std::invalid_argument("a tensor cannot have shape " + shape.to_string() +
                                  ": -1 is understood by reshape only");
    }
  }
  const auto count = static_cast<std::size_t>(shape.numel());
  if (count > std::numeric_limits<std::size_t>::max() / size_of(dtype)) {
    throw std::invalid_argument("a tensor of shape " + shape.to_string() + " does not fit in memory");
  }
  return count * size_of(dtype);
}

std::size_t checked_axis(const Shape& shape, int axis) {
  const int index = axis < 0 ? axis + shape.rank() : axis;
  if (index < 0 || index >= shape.rank()) (void)shape[axis];  // throws, naming the shape
  return static_cast<std::size_t>(index);
}

// `wanted` with its -1 replaced. Throws unless it holds `numel` elements.
Shape resolved(const Shape& wanted, const Shape& from) {
  std::array<std::int64_t, kMaxRank> extents{};
  std::int64_t known = 1;
  int open = -1;
  bool valid = true;
  for (int i = 0; i < wanted.rank(); ++i) {
    extents[static_cast<std::size_t>(i)] = wanted[i];
    if (wanted[i] == -1) {
      valid = valid && open < 0;
      open = i;
    } else {
      known *= wanted[i];
    }
  }
  const std::int64_t numel = from.numel();
  if (open >= 0 && valid) {
    valid = known > 0 && numel % known == 0;
    if (valid) extents[static_cast<std::size_t>(open)] = numel / known;
  }
  if (!valid || (open < 0 && known != numel)) {
    throw std::invalid_argument("reshape: " + from.to_string() + " has " + std::to_string(numel) +
                                " elements and cannot become " + wanted.to_string());
  }
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(wanted.rank())));
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  Tensor tensor;
  tensor.storage_ = Storage::allocate(checked_bytes(shape, dtype), device);
  tensor.shape_ = shape;
  tensor.strides_ = contiguous_strides(shape);
  tensor.dtype_ = dtype;
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) { return full(shape, 0, dtype, device); }

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  tensor.fill(value);
  return tensor;
}

template <typename T>
Tensor Tensor::from(const Shape& shape, const std::vector<T>& values) {
  Tensor tensor = empty(shape, DTypeOf<T>::value);
  if (static_cast<std::int64_t>(values.size()) != shape.numel()) {
    throw std::invalid_argument("Tensor::from: " + std::to_string(values.size()) + " values given for shape " +
                                shape.to_string() + ", which has " + std::to_string(shape.numel()));
  }
  std::copy(values.begin(), values.end(), tensor.data<T>());
  return tensor;
}

Tensor Tensor::over(void* memory, std::shared_ptr<void> owner, const Shape& shape, DType dtype, Device device) {
  const std::size_t bytes = checked_bytes(shape, dtype);
  if (memory == nullptr && bytes > 0) {
    throw std::invalid_argument("Tensor::over: null memory for shape " + shape.to_string());
  }
  Tensor tensor;
  tensor.storage_ = Storage::over(memory, bytes, std::move(owner), device);
  tensor.shape_ = shape;
  tensor.strides_ = contiguous_strides(shape);
  tensor.dtype_ = dtype;
  return tensor;
}

std::size_t Tensor::nbytes() const { return static_cast<std::size_t>(numel()) * size_of(dtype_); }

Device Tensor::device() const { return storage_ ? storage_->device() : Device{}; }

std::int64_t Tensor::stride(int axis) const { return strides_[checked_axis(shape_, axis)]; }

bool Tensor::is_contiguous() const {
  const std::span<const std::int64_t> extents = shape_.extents();
  std::int64_t step = 1;
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    if (extents[axis] == 1) continue;
    if (extents[axis] == 0) return true;
    if (strides_[axis] != step) return false;
    step *= extents[axis];
  }
  return true;
}

void* Tensor::raw() { return const_cast<void*>(std::as_const(*this).raw()); }

const void* Tensor::raw() const {
  if (!storage_) throw std::logic_error("an undefined tensor has no data (default-constructed and never assigned)");
  return static_cast<const std::byte*>(std::as_const(*storage_).data()) +
         offset_ * static_cast<std::int64_t>(size_of(dtype_));
}

template <typename T>
T* Tensor::data() {
  return const_cast<T*>(std::as_const(*this).template data<T>());
}

template <typename T>
const T* Tensor::data() const {
  if (dtype_ != DTypeOf<T>::value) {
    throw std::invalid_argument("data<" + std::string(name(DTypeOf<T>::value)) + ">() of a " +
                                std::string(name(dtype_)) + " tensor of shape " + shape_.to_string());
  }
  if (device().kind == Device::Kind::Cuda) {
    throw std::invalid_argument("data<" + std::string(name(dtype_)) + ">() of a tensor on " + name(device()) +
                                ": the host cannot read it there; copy it with to(Device{})");
  }
  return static_cast<const T*>(raw());
}

Tensor Tensor::reshape(const Shape& shape) const {
  const Shape target = resolved(shape, shape_);
  Tensor view = contiguous();
  view.shape_ = target;
  view.strides_ = contiguous_strides(target);
  return view;
}

Tensor Tensor::narrow(int axis, std::int64_t start, std::int64_t length) const {
  const std::size_t index = checked_axis(shape_, axis);
  const std::int64_t extent = shape_[axis];
  if (start < 0 || length < 0 || start > extent || length > extent - start) {
    throw std::invalid_argument("narrow: [" + std::to_string(start) + ", " + std::to_string(start) + " + " +
                                std::to_string(length) + ") is outside axis " + std::to_string(axis) + " of shape " +
                                shape_.to_string());
  }
  std::array<std::int64_t, kMaxRank> extents{};
  std::ranges::copy(shape_.extents(), extents.begin());
  extents[index] = length;
  Tensor view = *this;
  view.shape_ = Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(rank())));
  view.offset_ += start * strides_[index];
  return view;
}

Tensor Tensor::transpose(int axis_a, int axis_b) const {
  const std::size_t a = checked_axis(shape_, axis_a);
  const std::size_t b = checked_axis(shape_, axis_b);
  std::array<std::int64_t, kMaxRank> extents{};
  std::ranges::copy(shape_.extents(), extents.begin());
  std::swap(extents[a], extents[b]);
  Tensor view = *this;
  view.shape_ = Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(rank())));
  std::swap(view.strides_[a], view.strides_[b]);
  return view;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  if (!defined()) return {};
  Tensor copy = empty(shape_, dtype_, device());
  kernels(device()).copy(copy, *this);
  return copy;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor converted = empty(shape_, dtype, device());
  kernels(device()).copy(converted, *this);
  return converted;
}

Tensor Tensor::to(Device device) const {
  if (!defined() || device == this->device()) return *this;
  Tensor moved = empty(shape_, dtype_, device);
  moved.copy_from(*this);
  return moved;
}

Tensor Tensor::on_host() const { return device().kind == Device::Kind::Cpu ? *this : to(Device{}); }

Tensor Tensor::shared_with(Device device) const {
  if (!defined() || device == this->device()) return *this;
  if (device.kind != Device::Kind::Cpu || this->device().kind != Device::Kind::Cpu) {
    throw std::invalid_argument("memory on " + name(this->device()) + " cannot be shared with " + name(device) +
                                ": only CPU devices have memory in common; use to()");
  }
  Tensor view = *this;
  void* const memory = storage_->data();
  view.storage_ = Storage::over(memory, storage_->nbytes(), storage_, device);
  return view;
}

void Tensor::move_to(Device device) {
  if (!defined()) throw std::logic_error("an undefined tensor has no memory to move (default-constructed)");
  storage_->move_to(device);
}

void Tensor::fill(double value) { kernels(device()).fill(*this, value); }

void Tensor::copy_from(const Tensor& source) {
  if (source.shape_ != shape_ || source.dtype_ != dtype_) {
    throw std::invalid_argument("copy_from: cannot copy " + std::string(name(source.dtype_)) + " " +
                                source.shape_.to_string() + " into " + std::string(name(dtype_)) + " " +
                                shape_.to_string());
  }
  const bool apart = device() != source.device() &&
                     (device().kind == Device::Kind::Cuda || source.device().kind == Device::Kind::Cuda);
  if (apart) return cuda::transfer(*this, source);
  kernels(device()).copy(*this, source);
}

double Tensor::item() const {
  if (numel() != 1) {
    throw std::invalid_argument("item() of shape " + shape_.to_string() +
                                ": only a tensor of one element has one value");
  }
  const Tensor value = to(DType::Float64).on_host();
  return *value.data<double>();
}

#define TUTTI_INSTANTIATE(T)                                                         \
  template Tensor Tensor::from<T>(const Shape& shape, const std::vector<T>& values); \
  template T* Tensor::data<T>();                                                     \
  template const T* Tensor::data<T>() const;
TUTTI_INSTANTIATE(float)
TUTTI_INSTANTIATE(double)
TUTTI_INSTANTIATE(std::int64_t)
TUTTI_INSTANTIATE(std::uint8_t)
#undef TUTTI_INSTANTIATE

}  // namespace tutti::tensor
