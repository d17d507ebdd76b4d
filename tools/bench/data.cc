#include <tutti/tools/bench/data.h>

#include <algorithm>
#include <array>
#include <cmath>
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
T element(std::uint64_t seed, int rank, std::size_t index, ReduceOp op) {
  const std::uint64_t bits = random_bits(seed, rank, index);
  if (op != ReduceOp::Prod) return static_cast<T>(static_cast<int>(bits & 0xff) - 128);
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(bits & 0x7f) | T{1};
  } else {
    constexpr std::array kPowers{T{-1}, T{1}, T{2}, T{0.5}};
    return kPowers[bits & 3];
  }
}

template <typename T>
T combined(T a, T b, ReduceOp op) {
  if (op == ReduceOp::Min) return std::min(a, b);
  if (op == ReduceOp::Max) return std::max(a, b);
  if constexpr (std::is_integral_v<T>) {  // unsigned arithmetic, which wraps
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<T>(op == ReduceOp::Prod ? x * y : x + y);
  } else {
    return op == ReduceOp::Prod ? a * b : a + b;
  }
}

template <typename T>
T reduced(std::uint64_t seed, int world_size, std::size_t index, ReduceOp op) {
  T result = element<T>(seed, 0, index, op);
  for (int rank = 1; rank < world_size; ++rank) result = combined(result, element<T>(seed, rank, index, op), op);
  if constexpr (std::is_floating_point_v<T>) {  // comm refuses averages of integers
    if (op == ReduceOp::Avg) result /= static_cast<T>(world_size);
  }
  return result;
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

constexpr std::array kTypes{entry<float>(), entry<double>(), entry<std::int32_t>(), entry<std::int64_t>(),
                            entry<std::uint8_t>()};

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
