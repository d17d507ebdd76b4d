// The operators of a call, for every element type. Integers wrap around.
#pragma once

#include <tutti/tools/labs/driver/refereed_ranks.h>

#include <type_traits>

namespace tutti::labs::driver {

/// What an Operator's context points to.
struct OperatorContext {
  Tally* tally = nullptr;
  void (*combined)(void* watcher, const void* into, std::size_t bytes) = nullptr;  // null: nobody watches
  void (*about_to_combine)(void* watcher) = nullptr;
  void* watcher = nullptr;
};

template <typename T, int kOp>
T combined(T a, T b) {
  // Unsigned, at least 32 bits wide: overflow is defined there, and shorter types would be promoted to signed.
  if constexpr (std::is_integral_v<T> && kOp <= 1) {
    using Wide = std::common_type_t<std::make_unsigned_t<T>, unsigned>;
    return static_cast<T>(kOp == 0 ? static_cast<Wide>(a) + static_cast<Wide>(b)
                                   : static_cast<Wide>(a) * static_cast<Wide>(b));
  } else if constexpr (kOp == 0) {
    return a + b;
  } else if constexpr (kOp == 1) {
    return a * b;
  } else if constexpr (kOp == 2) {
    return b < a ? b : a;
  } else {
    return a < b ? b : a;
  }
}

template <typename T, int kOp>
void combine(void* context, T* into, const T* from, std::size_t count) {
  auto& known = *static_cast<OperatorContext*>(context);
  if (known.about_to_combine != nullptr) known.about_to_combine(known.watcher);
  for (std::size_t i = 0; i < count; ++i) into[i] = combined<T, kOp>(into[i], from[i]);
  known.tally->combined_bytes += count * sizeof(T);
  if (known.combined != nullptr) known.combined(known.watcher, into, count * sizeof(T));
}

template <typename T>
Operator<T> operator_of(std::uint32_t op, OperatorContext& context) {
  constexpr typename Operator<T>::Combine kTable[] = {combine<T, 0>, combine<T, 1>, combine<T, 2>, combine<T, 3>};
  return Operator<T>(kTable[op % 4], &context);
}

/// Runs `then` with a pointer to the operator for elements of `type`.
template <typename Then>
void with_operator(detail::ElementType type, std::uint32_t op, OperatorContext& context, Then then) {
  const auto run = [&]<typename T>() {
    Operator<T> made = operator_of<T>(op, context);
    then(static_cast<void*>(&made));
  };
  switch (type) {
    case detail::ElementType::Float32:
      return run.template operator()<float>();
    case detail::ElementType::Float64:
      return run.template operator()<double>();
    case detail::ElementType::Int32:
      return run.template operator()<std::int32_t>();
    case detail::ElementType::Int64:
      return run.template operator()<std::int64_t>();
    case detail::ElementType::UInt8:
      return run.template operator()<std::uint8_t>();
    case detail::ElementType::UInt64:
      return run.template operator()<std::uint64_t>();
  }
}

}  // namespace tutti::labs::driver
