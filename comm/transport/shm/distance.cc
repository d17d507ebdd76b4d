#include <immintrin.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/fast_clock.h>
#include <tutti/comm/transport/shm/distance.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tutti::comm {
namespace {

constexpr const char* kVariable = "TUTTI_FAR_LINE_NS";
constexpr std::chrono::nanoseconds kFarLine(120);

/// What a look at the clock takes, which may be a system call: half of the shortest of a few pairs.
std::chrono::nanoseconds cost_of_a_look() {
  auto shortest = std::chrono::nanoseconds::max();
  for (int i = 0; i < 32; ++i) {
    const auto before = FastClock::now();
    FastClock::now();
    shortest = std::min<std::chrono::nanoseconds>(shortest, FastClock::now() - before);
  }
  return shortest / 2;
}

}  // namespace

std::uint64_t Distance::load(const std::atomic<std::uint64_t>& line, std::uint64_t& seen) {
  const auto before = FastClock::now();
  _mm_lfence();  // neither is done before or behind its place
  const std::uint64_t value = line.load(std::memory_order_acquire);
  _mm_lfence();
  if (value != seen) sample(FastClock::now() - before);
  return seen = value;
}

void Distance::sample(std::chrono::nanoseconds took) { far_.sample(took > limit_); }

bool Distance::limit_is_set() { return std::getenv(kVariable) != nullptr; }

std::chrono::nanoseconds Distance::far_line() {
  const char* value = std::getenv(kVariable);
  if (!value) {
    static const std::chrono::nanoseconds look = cost_of_a_look();
    return kFarLine + look;
  }
  const std::string_view text(value);
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0)
    throw Error(ErrorCode::InvalidArgument, std::string(kVariable) + " is '" + value +
                                                "': a number of nanoseconds is expected, 0 or more, such as 120");
  return std::chrono::nanoseconds(number);
}

}  // namespace tutti::comm
