// The conversions of base/half.h over whole vectors, and around them the operators on floats. Uses the CPU's own
// conversion of halves where it has one (with the same results), elsewhere integer instructions. A rest shorter than a
// vector is padded, so block and rest are computed alike.
#include <tutti/comm/reduce/reduce_half.h>

#include <cstdint>

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace tutti::comm {
namespace {

using namespace elementwise;

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
    const Words bits = spread(halves);
    const Words exponent = bits & 0x7C00u;
    Words magnitude = ((bits & 0x7FFFu) << 13) + (112u << 23);
    magnitude += (exponent == 0x7C00u) ? (Words{} + (112u << 23)) : Words{};
    const Words subnormal = bits_of(floats_of(magnitude + (1u << 23)) - 0x1p-14f);
    magnitude = (exponent == 0u) ? subnormal : magnitude;
    return floats_of(((bits & 0x8000u) << 16) | magnitude);
  }
  static Halves narrow(Floats floats) {
    const Words bits = bits_of(floats);
    const Words magnitude = bits & 0x7FFFFFFFu;
    const Words nan = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
    const Words subnormal = bits_of(floats_of(magnitude) + 0.5f) - 0x3F000000u;  // the bits of 1/2
    const Words normal = (magnitude - (112u << 23) + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
    Words result = (magnitude < (143u << 23)) ? normal : (Words{} + 0x7C00u);
    result = (magnitude < (113u << 23)) ? subnormal : result;
    result = (magnitude > 0x7F800000u) ? nan : result;
    return pack(((bits >> 16) & 0x8000u) | result);
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

template <typename Format, typename Op>
struct InFloat {
  using Vector = Halves;
  using Tail = Halves;
  static constexpr bool kPadsTail = true;
  static constexpr std::size_t kElementBytes = sizeof(std::uint16_t);
  static constexpr std::size_t kTargetElementBytes = kElementBytes;

  static Halves apply(Halves first, Halves second) {
    return Format::narrow(Op::template apply<Floats>(Format::widen(first), Format::widen(second)));
  }
  static Halves finish(Halves value) { return value; }
  static void store(std::byte* target, std::size_t at, Halves value, std::size_t bytes) {
    std::memcpy(target + at, &value, bytes);
  }
};

template <typename Format>
struct MeanInFloat : InFloat<Format, Add> {
  explicit MeanInFloat(int divisor) : by(Floats{} + static_cast<float>(divisor)) {}

  Halves finish(Halves sum) const { return Format::narrow(Format::widen(sum) / by); }

  Floats by;
};

template <typename Format>
void combine_by(const Rows& rows, ReduceOp op, int divisor) {
  switch (op) {
    case ReduceOp::Avg:
      if (divisor != 0) return combine(MeanInFloat<Format>(divisor), rows);
      [[fallthrough]];
    case ReduceOp::Sum:
      return combine(InFloat<Format, Add>(), rows);
    case ReduceOp::Prod:
      return combine(InFloat<Format, Multiply>(), rows);
    case ReduceOp::Min:
      return combine(InFloat<Format, Minimum>(), rows);
    case ReduceOp::Max:
      return combine(InFloat<Format, Maximum>(), rows);
    case ReduceOp::BAnd:
    case ReduceOp::BOr:
    case ReduceOp::BXor:
    case ReduceOp::User:
      return;
  }
}

}  // namespace

void combine_float16(const Rows& rows, ReduceOp op, int divisor) { combine_by<Float16>(rows, op, divisor); }
void combine_bfloat16(const Rows& rows, ReduceOp op, int divisor) { combine_by<Brain16>(rows, op, divisor); }

}  // namespace tutti::comm
