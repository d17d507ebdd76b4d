#include <tutti/comm/base/format.h>
#include <tutti/tools/labs/tasks/values.h>

#include <cmath>
#include <cstring>

namespace tutti::labs {
namespace {

constexpr double kMovedPerRank = 0x1p32;
constexpr double kMovedPerCall = 0x1p24;

// Mixes the bits of its arguments (splitmix64).
std::uint64_t mixed(std::uint64_t rank, std::uint64_t call, std::uint64_t index) {
  std::uint64_t x = (rank * 1'000'003 + call) * 1'000'003 + index + 0x9E37'79B9'7F4A'7C15u;
  x = (x ^ (x >> 30)) * 0xBF58'476D'1CE4'E5B9u;
  x = (x ^ (x >> 27)) * 0x94D0'49BB'1331'11EBu;
  return x ^ (x >> 31);
}

bool is_signed_type(ElementType type) { return type != ElementType::UInt8 && type != ElementType::UInt64; }

std::uint64_t wrapped(std::uint64_t value, ElementType type) {
  const std::size_t bits = 8 * size_of(type);
  return bits < 64 ? value & ((std::uint64_t{1} << bits) - 1) : value;
}

std::int64_t signed_value(std::uint64_t value, ElementType type) {
  return type == ElementType::Int32 ? static_cast<std::int32_t>(static_cast<std::uint32_t>(value))
                                    : static_cast<std::int64_t>(value);
}

Element whole(std::int64_t value, ElementType type) {
  if (is_floating(type)) return {static_cast<double>(value), 0};
  return {0, wrapped(static_cast<std::uint64_t>(value), type)};
}

Element combine_two(const Case& posed, const Element& a, const Element& b) {
  const bool real = is_floating(posed.type);
  const auto less = [&](const Element& x, const Element& y) {
    if (real) return x.real < y.real;
    return is_signed_type(posed.type) ? signed_value(x.integer, posed.type) < signed_value(y.integer, posed.type)
                                      : x.integer < y.integer;
  };
  switch (posed.op) {
    case Combination::Sum:
      return {a.real + b.real, wrapped(a.integer + b.integer, posed.type)};
    case Combination::Prod:
      return {a.real * b.real, wrapped(a.integer * b.integer, posed.type)};
    case Combination::Min:
      return less(b, a) ? b : a;
    case Combination::Max:
      return less(a, b) ? b : a;
  }
  return a;
}

}  // namespace

bool is_coded(const Case& posed) {
  return posed.op == Combination::Sum && size_of(posed.type) == 8 && posed.world_size <= kCodedRanks &&
         !posed.is_rounded;
}

std::int64_t weight_of(std::size_t call, std::size_t index) {
  return 1 + static_cast<std::int64_t>((index + call) % 3);
}

bool is_floating(ElementType type) { return type == ElementType::Float32 || type == ElementType::Float64; }

Element element_at(const Bytes& bytes, std::size_t index, ElementType type) {
  const unsigned char* from = bytes.data() + index * size_of(type);
  Element element;
  if (type == ElementType::Float64) {
    std::memcpy(&element.real, from, sizeof element.real);
  } else if (type == ElementType::Float32) {
    float value = 0;
    std::memcpy(&value, from, sizeof value);
    element.real = value;
  } else {
    std::memcpy(&element.integer, from, size_of(type));  // little endian
  }
  return element;
}

void put_element(Bytes& bytes, std::size_t index, ElementType type, const Element& element) {
  unsigned char* to = bytes.data() + index * size_of(type);
  if (type == ElementType::Float64) {
    std::memcpy(to, &element.real, sizeof element.real);
  } else if (type == ElementType::Float32) {
    const auto value = static_cast<float>(element.real);
    std::memcpy(to, &value, sizeof value);
  } else {
    std::memcpy(to, &element.integer, size_of(type));
  }
}

std::string text_of(const Element& element, ElementType type) {
  if (is_floating(type)) return comm::format("%.17g", element.real);
  return is_signed_type(type) ? std::to_string(signed_value(element.integer, type)) : std::to_string(element.integer);
}

Element reduction_input(const Case& posed, int rank, std::size_t call, std::size_t index) {
  const std::uint64_t random = mixed(static_cast<std::uint64_t>(rank), call, index);
  if (posed.is_rounded) return {static_cast<double>(random % 1'000'000) / 7 + 1, 0};
  const auto small = static_cast<std::int64_t>(random % 100);
  switch (posed.op) {
    case Combination::Sum:
      if (is_coded(posed)) return whole(weight_of(call, index) * (std::int64_t{1} << (5 * rank)), posed.type);
      return whole(1 + small % 8, posed.type);
    case Combination::Prod:
      return whole(1 + small % 3, posed.type);
    case Combination::Min:
      return whole(1 + small, posed.type);  // an accumulator that begins with 0 shows
    case Combination::Max:
      return whole(is_signed_type(posed.type) ? -1 - small : 1 + small, posed.type);
  }
  return {};
}

Element combined(const Case& posed, std::size_t call, std::size_t index) {
  Element result = reduction_input(posed, 0, call, index);
  for (int rank = 1; rank < posed.world_size; ++rank) {
    result = combine_two(posed, result, reduction_input(posed, rank, call, index));
  }
  return result;
}

Element moved_input(const Case& posed, int rank, std::size_t call, std::size_t index) {
  if (posed.type == ElementType::Float64) {
    return {(rank + 1) * kMovedPerRank + static_cast<double>(call) * kMovedPerCall + static_cast<double>(index), 0};
  }
  return whole(static_cast<std::int64_t>(mixed(static_cast<std::uint64_t>(rank), call, index) % 200), posed.type);
}

Bytes array_of(ElementType type, std::size_t count, const std::function<Element(std::size_t)>& make) {
  Bytes bytes(count * size_of(type));
  for (std::size_t i = 0; i < count; ++i) put_element(bytes, i, type, make(i));
  return bytes;
}

std::optional<Explanation> explain_moved(const Case& posed, const Element& found) {
  if (posed.type != ElementType::Float64 || !(found.real >= kMovedPerRank) || found.real > 1e15) return std::nullopt;
  const double rank = std::floor(found.real / kMovedPerRank) - 1;
  const double rest = std::fmod(found.real, kMovedPerRank);
  if (rank >= posed.world_size || rest != std::floor(rest)) return std::nullopt;
  const double index = std::fmod(rest, kMovedPerCall);
  return Explanation{"", "that is element " + std::to_string(static_cast<long>(index)) + " of rank " +
                             std::to_string(static_cast<int>(rank)) + " in call " +
                             std::to_string(static_cast<int>(rest / kMovedPerCall) + 1)};
}

}  // namespace tutti::labs
