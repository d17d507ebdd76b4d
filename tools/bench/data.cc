#include <tutti/comm/base/half.h>
#include <tutti/tools/bench/data.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace tutti::tools::bench {
namespace {

using comm::DType;
using comm::ReduceOp;

// Splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): the finisher.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t random_bits(std::uint64_t seed, int rank, std::size_t index) {
  return mixed(mixed(seed + static_cast<std::uint64_t>(rank) * 0x9e3779b97f4a7c15ULL) + index * 0xd1342543de82ef95ULL);
}

template <typename T>
constexpr bool kIsHalf = std::is_same_v<T, comm::Half> || std::is_same_v<T, comm::BFloat16>;

/// What elements of T are computed in: 16-bit floats in float, exactly, since all values here fit both.
template <typename T>
using Work = std::conditional_t<kIsHalf<T>, float, T>;

template <typename T>
T element(std::uint64_t seed, int rank, std::size_t index, ReduceOp op) {
  const std::uint64_t bits = random_bits(seed, rank, index);
  if constexpr (std::is_same_v<T, bool>) {
    return (bits & 1) != 0;
  } else if constexpr (std::is_integral_v<T>) {
    if (op == ReduceOp::Prod) return static_cast<T>((bits & 0x7f) | 1);
    return static_cast<T>(static_cast<int>(bits & 0xff) - 128);
  } else {
    constexpr std::array kPowers{-1.0F, 1.0F, 2.0F, 0.5F};
    constexpr std::uint64_t kValues = kIsHalf<T> ? 16 : 256;
    if (op == ReduceOp::Prod) return static_cast<T>(kPowers[bits & 3]);
    return static_cast<T>(static_cast<float>(static_cast<int>(bits % kValues) - static_cast<int>(kValues / 2)));
  }
}

bool combined(bool a, bool b, ReduceOp op) {
  if (op == ReduceOp::BXor) return a != b;
  const bool both = op == ReduceOp::Prod || op == ReduceOp::Min || op == ReduceOp::BAnd;
  return both ? a && b : a || b;
}

template <typename T>
T combined(T a, T b, ReduceOp op) {
  if (op == ReduceOp::Min) return std::min(a, b);
  if (op == ReduceOp::Max) return std::max(a, b);
  if constexpr (std::is_integral_v<T>) {  // unsigned arithmetic, which wraps
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    if (op == ReduceOp::BAnd) return static_cast<T>(x & y);
    if (op == ReduceOp::BOr) return static_cast<T>(x | y);
    if (op == ReduceOp::BXor) return static_cast<T>(x ^ y);
    return static_cast<T>(op == ReduceOp::Prod ? x * y : x + y);
  } else {
    return op == ReduceOp::Prod ? a * b : a + b;
  }
}

template <typename T>
T reduced(std::uint64_t seed, int world_size, std::size_t index, ReduceOp op) {
  const auto of_rank = [&](int rank) { return static_cast<Work<T>>(element<T>(seed, rank, index, op)); };
  Work<T> result = of_rank(0);
  for (int rank = 1; rank < world_size; ++rank) result = combined(result, of_rank(rank), op);
  if constexpr (std::is_floating_point_v<Work<T>>) {  // comm refuses averages of integers
    if (op == ReduceOp::Avg) result /= static_cast<Work<T>>(world_size);
  }
  return static_cast<T>(result);
}

template <typename T>
void fill_data_as(const Case& c, std::uint64_t seed, comm::Buffer data) {
  T* values = static_cast<T*>(data.data);
  for (std::size_t i = 0; i < data.count; ++i) values[i] = element<T>(seed, c.rank, i, c.redop);
}

template <typename T>
void fill_expected_as(const Operation& operation, const Case& c, std::uint64_t seed, comm::Buffer data) {
  T* values = static_cast<T*>(data.data);
  for (std::size_t i = 0; i < data.count; ++i) {
    const Origin from = operation.origin(c, i);
    values[i] = from.rank == kAllRanks ? reduced<T>(seed, c.world_size, from.index, c.redop)
                                       : element<T>(seed, from.rank, from.index, c.redop);
  }
}

struct TypeEntry {
  DType dtype;
  void (*fill_data)(const Case&, std::uint64_t, comm::Buffer);
  void (*fill_expected)(const Operation&, const Case&, std::uint64_t, comm::Buffer);
};

template <typename T>
constexpr TypeEntry entry() {
  return {comm::DTypeOf<T>::value, fill_data_as<T>, fill_expected_as<T>};
}

constexpr std::array kTypes{entry<float>(),          entry<double>(),       entry<comm::Half>(),
                            entry<comm::BFloat16>(), entry<std::int8_t>(),  entry<std::uint8_t>(),
                            entry<std::uint16_t>(),  entry<std::int32_t>(), entry<std::int64_t>(),
                            entry<std::uint64_t>(),  entry<bool>()};

const TypeEntry& find_type(DType dtype) {
  for (const TypeEntry& type : kTypes) {
    if (type.dtype == dtype) return type;
  }
  throw std::invalid_argument("bench: no verifiable data of type " + std::string(comm::name(dtype)));
}

}  // namespace

std::vector<DType> verifiable_types() {
  std::vector<DType> types;
  for (const TypeEntry& type : kTypes) types.push_back(type.dtype);
  return types;
}

void fill_data(const Case& c, std::uint64_t seed, comm::Buffer data) { find_type(c.dtype).fill_data(c, seed, data); }

void fill_expected(const Operation& operation, const Case& c, std::uint64_t seed, comm::Buffer data) {
  find_type(c.dtype).fill_expected(operation, c, seed, data);
}

std::size_t count_wrong(comm::ConstBuffer data, comm::ConstBuffer expected) {
  if (data.count == 0 || std::memcmp(data.data, expected.data, data.nbytes()) == 0) return 0;
  const std::size_t element_bytes = comm::size_of(data.dtype);
  const char* a = static_cast<const char*>(data.data);
  const char* b = static_cast<const char*>(expected.data);
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < data.nbytes(); at += element_bytes) {
    if (std::memcmp(a + at, b + at, element_bytes) != 0) ++wrong;
  }
  return wrong;
}

}  // namespace tutti::tools::bench
