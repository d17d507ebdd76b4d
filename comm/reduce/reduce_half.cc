// The conversions of base/half.h over whole vectors, and around them the operators on floats. Where the processor
// converts halves itself it does (with the same results), elsewhere integer instructions do. A rest shorter than a
// vector is padded, so block and rest are computed alike.
#include <tutti/comm/reduce/elementwise.h>
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
Halves apply(Halves first, Halves second) {
  return Format::narrow(Op::template apply<Floats>(Format::widen(first), Format::widen(second)));
}

/// A rest of less than a vector, filled up with zeros.
Halves load_rest(const std::byte* from, std::size_t nbytes) {
  Halves halves{};
  std::memcpy(&halves, from, nbytes);
  return halves;
}

template <typename Format, typename Op>
void combine(std::byte* result, const std::byte* first, const std::byte* second, std::size_t count) {
  constexpr std::size_t kBlock = kUnroll * kHalfBytes;
  const std::size_t nbytes = count * sizeof(std::uint16_t);
  std::size_t at = 0;
  for (; at + kBlock <= nbytes; at += kBlock) {
    Halves values[kUnroll];
    for (std::size_t u = 0; u < kUnroll; ++u) {
      const std::size_t offset = at + u * kHalfBytes;
      values[u] = apply<Format, Op>(load<Halves>(first + offset), load<Halves>(second + offset));
    }
    std::memcpy(result + at, values, kBlock);
  }
  for (; at < nbytes; at += kHalfBytes) {
    const std::size_t rest = nbytes - at < kHalfBytes ? nbytes - at : kHalfBytes;
    const Halves value = apply<Format, Op>(load_rest(first + at, rest), load_rest(second + at, rest));
    std::memcpy(result + at, &value, rest);
  }
}

template <typename Format>
void combine_by(std::byte* result, const std::byte* first, const std::byte* second, std::size_t count, ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return combine<Format, Add>(result, first, second, count);
    case ReduceOp::Prod:
      return combine<Format, Multiply>(result, first, second, count);
    case ReduceOp::Min:
      return combine<Format, Minimum>(result, first, second, count);
    case ReduceOp::Max:
      return combine<Format, Maximum>(result, first, second, count);
    case ReduceOp::BAnd:
    case ReduceOp::BOr:
    case ReduceOp::BXor:
    case ReduceOp::User:
      return;
  }
}

template <typename Format>
void scale_down(std::byte* data, std::size_t count, int divisor) {
  const Floats by = Floats{} + static_cast<float>(divisor);
  const std::size_t nbytes = count * sizeof(std::uint16_t);
  for (std::size_t at = 0; at < nbytes; at += kHalfBytes) {
    const std::size_t rest = nbytes - at < kHalfBytes ? nbytes - at : kHalfBytes;
    const Halves value = Format::narrow(Format::widen(load_rest(data + at, rest)) / by);
    std::memcpy(data + at, &value, rest);
  }
}

}  // namespace

void combine_float16(std::byte* result, const std::byte* first, const std::byte* second, std::size_t count,
                     ReduceOp op) {
  combine_by<Float16>(result, first, second, count, op);
}

void combine_bfloat16(std::byte* result, const std::byte* first, const std::byte* second, std::size_t count,
                      ReduceOp op) {
  combine_by<Brain16>(result, first, second, count, op);
}

void scale_down_float16(std::byte* data, std::size_t count, int divisor) { scale_down<Float16>(data, count, divisor); }
void scale_down_bfloat16(std::byte* data, std::size_t count, int divisor) { scale_down<Brain16>(data, count, divisor); }

}  // namespace tutti::comm
