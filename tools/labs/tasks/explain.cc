// What a wrong element says about the mistake.

#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/driver/protocol.h>
#include <tutti/tools/labs/tasks/values.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace tutti::labs {
namespace {

using Digits = std::array<std::int64_t, kCodedRanks>;

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return text;
}

// The digits to the base 32; empty if that is no sum of inputs.
std::optional<Digits> digits_of(const Case& posed, const Element& found) {
  std::uint64_t rest = found.integer;
  if (is_floating(posed.type)) {
    if (!(found.real >= 0 && found.real < 0x1p53) || found.real != std::floor(found.real)) return std::nullopt;
    rest = static_cast<std::uint64_t>(found.real);
  }
  Digits digits{};
  for (int rank = 0; rank < posed.world_size; ++rank, rest /= 32) digits[static_cast<std::size_t>(rank)] = rest % 32;
  return rest == 0 ? std::optional(digits) : std::nullopt;
}

// How often each rank is in it, if all digits are multiples of the weight.
std::optional<Digits> times_of(const Digits& digits, std::int64_t weight) {
  Digits times{};
  for (std::size_t rank = 0; rank < digits.size(); ++rank) {
    if (digits[rank] % weight != 0) return std::nullopt;
    times[rank] = digits[rank] / weight;
  }
  return times;
}

bool all_once(const Digits& times, int world_size) {
  return std::all_of(times.begin(), times.begin() + world_size, [](std::int64_t one) { return one == 1; });
}

}  // namespace

Bytes unwritten(std::size_t bytes) {
  Bytes made(bytes);
  const std::uint32_t word = protocol::kPoisonOutput;
  for (std::size_t at = 0; at < bytes; at += sizeof word)
    std::memcpy(made.data() + at, &word, std::min(sizeof word, bytes - at));
  return made;
}

std::optional<Explanation> explain_memory(const Bytes& bytes, std::size_t index, ElementType type) {
  if (!is_floating(type)) return std::nullopt;
  const std::size_t size = size_of(type);
  // Arithmetic hands the payload of a not-a-number on: its upper word tells where it comes from.
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + index * size + (size - sizeof word), sizeof word);
  const Element found = element_at(bytes, index, type);
  if (word == protocol::kPoisonOutput) {
    Bytes before = unwritten(size);
    const bool untouched = std::memcmp(before.data(), bytes.data() + index * size, size) == 0;
    if (untouched) return Explanation{diagnosis::kUntouched, "nothing was written there, or something unwritten"};
  }
  if (word == protocol::kPoisonPending) {
    return Explanation{diagnosis::kReadBeforeWait,
                       "it comes from memory that an irecv had yet to fill: it was read before wait()"};
  }
  if (std::abs(found.real) > (type == ElementType::Float32 ? 1e37 : 1e300)) {
    return Explanation{diagnosis::kUninitialised, "it comes from memory that was never written"};
  }
  return std::nullopt;
}

std::optional<Explanation> explain_sum(const Case& posed, std::size_t call, std::size_t index, const Element& found) {
  if (!is_coded(posed)) return std::nullopt;
  const std::optional<Digits> digits = digits_of(posed, found);
  if (!digits) return std::nullopt;
  const std::int64_t weight = weight_of(call, index);
  for (const std::int64_t other : {1, 2, 3}) {
    const auto times = times_of(*digits, other);
    if (other != weight && times && all_once(*times, posed.world_size)) {
      return Explanation{diagnosis::kMisplaced, "that is the right sum of another element, or of another call"};
    }
  }
  const auto times = times_of(*digits, weight);
  if (!times) return Explanation{diagnosis::kMisplaced, "different elements have been added up"};
  std::vector<int> missing, several;
  for (int rank = 0; rank < posed.world_size; ++rank) {
    const std::int64_t count = (*times)[static_cast<std::size_t>(rank)];
    if (count == 0) missing.push_back(rank);
    if (count > 1) several.push_back(rank);
  }
  std::string text;
  if (!missing.empty()) text = "what " + ranks_text(missing) + (missing.size() == 1 ? " has" : " have") + " is missing";
  if (!several.empty()) {
    text += std::string(text.empty() ? "" : ", and ") + "what " + ranks_text(several) +
            (several.size() == 1 ? " has" : " have") + " is in it more than once";
  }
  if (text.empty()) return std::nullopt;
  return Explanation{missing.empty() ? diagnosis::kTwice : diagnosis::kMissingRank, text};
}

}  // namespace tutti::labs
