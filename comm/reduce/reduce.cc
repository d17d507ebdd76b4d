// Kernels on the vectors of elementwise.h.
//
// Both values of incoming_first run the same code with swapped operands. That keeps ranks bit-equal even where an
// operator is not commutative in its bits: NaN payloads, min and max of -0 and +0.
#include <tutti/comm/base/error.h>
#include <tutti/comm/reduce/elementwise.h>
#include <tutti/comm/reduce/reduce.h>

#include <bit>
#include <cstring>
#include <functional>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace tutti::comm {
namespace {

using namespace elementwise;

// --- 16-bit floating point numbers: the conversions of base/half.h over whole vectors, and around them the operators
// on floats. The CPU's own conversion of halves has the same results.

constexpr std::size_t kLanes = kVectorBytes / sizeof(float);
constexpr std::size_t kHalfBytes = kLanes * sizeof(std::uint16_t);

typedef float Floats __attribute__((vector_size(kVectorBytes)));
typedef std::uint32_t Words __attribute__((vector_size(kVectorBytes)));
typedef std::uint16_t Halves __attribute__((vector_size(kHalfBytes)));

Words bits_of(Floats values) { return load<Words>(reinterpret_cast<const std::byte*>(&values)); }
Floats floats_of(Words bits) { return load<Floats>(reinterpret_cast<const std::byte*>(&bits)); }

// Each half in a word of its own, and back. The compiler's own conversion goes lane by lane.
#if defined(__AVX512F__)
Words spread(Halves halves) {
  return reinterpret_cast<Words>(_mm512_maskz_cvtepu16_epi32(0xFFFF, reinterpret_cast<__m256i>(halves)));
}
Halves pack(Words words) {
  return reinterpret_cast<Halves>(_mm512_maskz_cvtepi32_epi16(0xFFFF, reinterpret_cast<__m512i>(words)));
}
#else
Words spread(Halves halves) { return __builtin_convertvector(halves, Words); }
Halves pack(Words words) { return __builtin_convertvector(words, Halves); }
#endif

struct Float16 {
#if defined(__AVX512F__)
  static Floats widen(Halves halves) { return _mm512_maskz_cvtph_ps(0xFFFF, reinterpret_cast<__m256i>(halves)); }
  static Halves narrow(Floats floats) {
    return reinterpret_cast<Halves>(_mm512_maskz_cvtps_ph(0xFFFF, floats, _MM_FROUND_TO_NEAREST_INT));
  }
#elif defined(__F16C__)
  static Floats widen(Halves halves) { return _mm256_cvtph_ps(reinterpret_cast<__m128i>(halves)); }
  static Halves narrow(Floats floats) {
    return reinterpret_cast<Halves>(_mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  static Floats widen(Halves halves) {
    Floats floats;
    for (std::size_t i = 0; i < kLanes; ++i) floats[i] = static_cast<float>(Half::from_bits(halves[i]));
    return floats;
  }
  static Halves narrow(Floats floats) {
    Halves halves;
    for (std::size_t i = 0; i < kLanes; ++i) halves[i] = Half(floats[i]).bits();
    return halves;
  }
#endif
};

struct Brain16 {
  static Floats widen(Halves halves) { return floats_of(spread(halves) << 16); }
  static Halves narrow(Floats floats) {
    const Words bits = bits_of(floats);
    const Words rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
    const Words nan = bits | 0x400000u;
    return pack((((bits & 0x7FFFFFFFu) > 0x7F800000u) ? nan : rounded) >> 16);
  }
};

/// Each pair is computed in float, and rounded. A rest shorter than a vector is padded: block and rest are computed
/// alike.
template <typename Format, typename Op>
struct InFloat : Plain<std::uint16_t, Op> {
  using Vector = Halves;
  using Tail = Halves;
  static constexpr bool kPadsTail = true;

  static Halves apply(Halves first, Halves second) {
    return Format::narrow(Op()(Format::widen(first), Format::widen(second)));
  }
};

template <typename Format>
struct MeanInFloat : InFloat<Format, Add> {
  explicit MeanInFloat(int divisor) : by(Floats{} + static_cast<float>(divisor)) {}

  Halves finish(Halves sum) const { return Format::narrow(Format::widen(sum) / by); }

  Floats by;
};

// --- What each type's elements are combined by

/// Sums and products of integers are computed unsigned: they wrap instead of being undefined.
template <typename T>
using Wrapping = typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>::type;

template <typename T>
struct Numbers {
  template <typename Op>
  using Wraps = Plain<Wrapping<T>, Op>;
  template <typename Op>
  using Compares = Plain<T, Op>;
  using MeanOf = Mean<T>;
  static constexpr bool kHasMean = std::is_floating_point_v<T>;
  static constexpr bool kHasBits = std::is_integral_v<T>;
};

template <typename Format>
struct SmallFloats {
  template <typename Op>
  using Wraps = InFloat<Format, Op>;
  template <typename Op>
  using Compares = InFloat<Format, Op>;
  using MeanOf = MeanInFloat<Format>;
  static constexpr bool kHasMean = true;
  static constexpr bool kHasBits = false;
};

template <typename Type>
void combine_by(const Rows& rows, ReduceOp op, int divisor) {
  switch (op) {
    case ReduceOp::Avg:
      if constexpr (Type::kHasMean) {
        if (divisor != 0) return combine(typename Type::MeanOf(divisor), rows);
      }
      [[fallthrough]];
    case ReduceOp::Sum:
      return combine(typename Type::template Wraps<Add>(), rows);
    case ReduceOp::Prod:
      return combine(typename Type::template Wraps<Multiply>(), rows);
    case ReduceOp::Min:
      return combine(typename Type::template Compares<Minimum>(), rows);
    case ReduceOp::Max:
      return combine(typename Type::template Compares<Maximum>(), rows);
    case ReduceOp::BAnd:
      if constexpr (Type::kHasBits) combine(typename Type::template Wraps<std::bit_and<>>(), rows);
      return;
    case ReduceOp::BOr:
      if constexpr (Type::kHasBits) combine(typename Type::template Wraps<std::bit_or<>>(), rows);
      return;
    case ReduceOp::BXor:
      if constexpr (Type::kHasBits) combine(typename Type::template Wraps<std::bit_xor<>>(), rows);
      return;
    case ReduceOp::User:
      return;
  }
}

// Bools are bytes. Whatever a peer sent, the result is 0 or 1, so that reading it as a bool is defined.
struct Or {
  template <typename V>
  V operator()(V first, V second) const {
    return ((first | second) != V{}) ? static_cast<V>(V{} + 1) : V{};
  }
};
struct And {
  template <typename V>
  V operator()(V first, V second) const {
    return ((first != V{}) & (second != V{})) ? static_cast<V>(V{} + 1) : V{};
  }
};
struct Xor {
  template <typename V>
  V operator()(V first, V second) const {
    return ((first != V{}) ^ (second != V{})) ? static_cast<V>(V{} + 1) : V{};
  }
};

void combine_bools(const Rows& rows, ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Max:
    case ReduceOp::BOr:
      return combine(Plain<std::uint8_t, Or>(), rows);
    case ReduceOp::Prod:
    case ReduceOp::Min:
    case ReduceOp::BAnd:
      return combine(Plain<std::uint8_t, And>(), rows);
    case ReduceOp::BXor:
      return combine(Plain<std::uint8_t, Xor>(), rows);
    case ReduceOp::Avg:
    case ReduceOp::User:
      return;
  }
}

/// Sums of doubles that are stored as floats, at half of the offset.
struct RoundedSum : Plain<double, Add> {
  static constexpr std::size_t kTargetElementBytes = sizeof(float);

  template <typename V>
  static void store(std::byte* target, std::size_t at, V value, std::size_t /*bytes*/) {
    if constexpr (std::is_same_v<V, double>) {
      const auto rounded = static_cast<float>(value + 0.0);
      std::memcpy(target + at / 2, &rounded, sizeof rounded);
    } else {
      typedef float Rounded __attribute__((vector_size(sizeof(V) / 2)));
      const Rounded rounded = __builtin_convertvector(value + 0.0, Rounded);
      std::memcpy(target + at / 2, &rounded, sizeof rounded);
    }
  }
};

/// Avg divides by `divisor`, unless that is 0.
void combine_rows(const Rows& rows, DType dtype, ReduceOp op, int divisor) {
  switch (dtype) {
    case DType::Float32:
      return combine_by<Numbers<float>>(rows, op, divisor);
    case DType::Float64:
      return combine_by<Numbers<double>>(rows, op, divisor);
    case DType::Int32:
      return combine_by<Numbers<std::int32_t>>(rows, op, divisor);
    case DType::Int64:
      return combine_by<Numbers<std::int64_t>>(rows, op, divisor);
    case DType::UInt8:
      return combine_by<Numbers<std::uint8_t>>(rows, op, divisor);
    case DType::Float16:
      return combine_by<SmallFloats<Float16>>(rows, op, divisor);
    case DType::BFloat16:
      return combine_by<SmallFloats<Brain16>>(rows, op, divisor);
    case DType::Int8:
      return combine_by<Numbers<std::int8_t>>(rows, op, divisor);
    case DType::UInt16:
      return combine_by<Numbers<std::uint16_t>>(rows, op, divisor);
    case DType::UInt64:
      return combine_by<Numbers<std::uint64_t>>(rows, op, divisor);
    case DType::Bool:
      return combine_bools(rows, op);
  }
}

}  // namespace

void reduce_into(void* target, const void* incoming, std::size_t count, DType dtype, ReduceOp op, bool incoming_first) {
  std::byte* const own = static_cast<std::byte*>(target);
  const auto* theirs = static_cast<const std::byte*>(incoming);
  const std::byte* const sources[] = {incoming_first ? theirs : own, incoming_first ? own : theirs};
  combine_rows({{&own, 1}, sources, count * size_of(dtype)}, dtype, op, 0);
}

void reduce_all(std::span<std::byte* const> targets, std::span<const std::byte* const> sources, std::size_t count,
                DType dtype, ReduceOp op) {
  combine_rows({targets, sources, count * size_of(dtype)}, dtype, op, static_cast<int>(sources.size()));
}

void reduce_rounded(std::span<std::byte* const> targets, std::span<const std::byte* const> sources, std::size_t count) {
  combine(RoundedSum(), {targets, sources, count * sizeof(double)});
}

void scale_down(void* data, std::size_t count, DType dtype, int divisor) {
  if (!is_floating_point(dtype)) return;
  std::byte* const bytes = static_cast<std::byte*>(data);
  const std::byte* const source = bytes;
  combine_rows({{&bytes, 1}, {&source, 1}, count * size_of(dtype)}, dtype, ReduceOp::Avg, divisor);
}

void reduce_into(void* target, const void* incoming, std::size_t count, DType dtype, const UserOp& op,
                 bool incoming_first, std::vector<std::byte>& spare) {
  if (count == 0) return;
  try {
    if (!incoming_first) return op.combine(target, incoming, count, dtype);
    // Even if the operator is commutative: two ranks that hold each other's operands must get equal bits.
    const std::size_t nbytes = count * size_of(dtype);
    if (spare.size() < nbytes) spare.resize(nbytes);
    std::memcpy(spare.data(), incoming, nbytes);
    op.combine(spare.data(), target, count, dtype);
    std::memcpy(target, spare.data(), nbytes);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::Operator, "the operator '", op.name, "' threw: ", error.what());
  } catch (...) {
    throw Error(ErrorCode::Operator, "the operator '", op.name, "' threw something that is no std::exception");
  }
}

}  // namespace tutti::comm
