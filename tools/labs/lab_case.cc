#include <tutti/tools/labs/lab_case.h>

#include <numeric>

namespace tutti::labs {

// In the order of the enumerations.
std::size_t size_of(ElementType type) {
  constexpr std::size_t kSizes[] = {4, 8, 4, 8, 1, 8};
  return kSizes[static_cast<std::size_t>(type)];
}

std::string name_of(ElementType type) {
  constexpr const char* kNames[] = {"float32", "float64", "int32", "int64", "uint8", "uint64"};
  return kNames[static_cast<std::size_t>(type)];
}

std::string name_of(Combination combination) {
  constexpr const char* kNames[] = {"sum", "prod", "min", "max"};
  return kNames[static_cast<std::size_t>(combination)];
}

std::size_t Case::bytes() const {
  const std::size_t elements = counts.empty() ? count : std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  return elements * size_of(type);
}

std::string counted(std::size_t number, const std::string& noun) {
  return std::to_string(number) + ' ' + noun + (number == 1 ? "" : "s");
}

std::string describe(const std::string& function, const Case& posed) {
  std::string text = counted(static_cast<std::size_t>(posed.world_size), "rank");
  if (function != "barrier") {
    text += ", " +
            (posed.counts.empty() ? std::to_string(posed.count) : counted(posed.counts.size(), "tensor") + " of") +
            " " + name_of(posed.type);
  }
  if (function == "reduce" || function == "all_reduce" || function == "all_reduce_many") {
    text += ", " + name_of(posed.op);
  }
  if (function == "reduce" || function == "broadcast") text += ", root " + std::to_string(posed.root);
  if (posed.is_rounded) text += ", values that must be rounded";
  if (posed.repetitions > 1) text += ", called " + std::to_string(posed.repetitions) + " times";
  if (posed.network.eager_bytes == 0) text += ", every send waits for its receiver";
  if (posed.network.jitter > 0) text += ", messages late at random";
  return text;
}

}  // namespace tutti::labs
