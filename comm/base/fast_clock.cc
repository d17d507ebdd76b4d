#include <tutti/comm/base/fast_clock.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace tutti::comm {

#if defined(__x86_64__)
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

constexpr std::int64_t kMeasureNs = 5'000'000;     // over which a rate is measured: errors of 50 ns are 1e-5 of it
constexpr std::int64_t kTrustNs = 20'000'000;      // for which it is used
constexpr std::int64_t kForgetNs = 1'000'000'000;  // a look that is older says nothing about the rate
// A rate holds when the one before was the same but for one part in so many, and the two clocks were read together: the
// thread may have lost its processor in between, or the machine have slept, for which only the counter goes on.
constexpr std::uint64_t kTolerance = 4096;
constexpr int kRateBits = 32;  // of nanoseconds per tick, behind the point

bool ask_for_invariance() {
  constexpr unsigned kPowerManagement = 0x8000'0007;
  constexpr unsigned kInvariant = 1u << 8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(kPowerManagement, &a, &b, &c, &d) != 0 && (d & kInvariant) != 0;
}

bool counter_is_invariant() {
  static const bool invariant = ask_for_invariance();
  return invariant;
}

std::int64_t steady_ns() { return nanoseconds(steady_clock::now().time_since_epoch()).count(); }

/// A look at the steady clock, and how to go on from it.
class Anchor {
 public:
  std::int64_t read_ns() {
    const std::uint64_t passed = __rdtsc() - ticks_;
    return passed < trusted_ ? ns_ + to_ns(passed) : look();
  }

 private:
  std::int64_t to_ns(std::uint64_t ticks) const { return static_cast<std::int64_t>((ticks * rate_) >> kRateBits); }

  std::int64_t look() {
    const std::uint64_t before = __rdtsc();
    const std::int64_t now_ns = steady_ns();
    const std::uint64_t now_ticks = __rdtsc();
    const std::int64_t passed_ns = now_ns - ns_;
    if (passed_ns < kMeasureNs && trusted_ == 0) return now_ns;  // too early to know the rate
    const std::uint64_t passed = now_ticks - ticks_;
    const std::int64_t told_ns = ns_ + to_ns(std::min(passed, trusted_));
    const std::uint64_t last_rate = std::exchange(rate_, 0);
    trusted_ = 0;
    if (passed_ns < kForgetNs && now_ticks > ticks_ && counter_is_invariant()) {
      rate_ = (static_cast<std::uint64_t>(passed_ns) << kRateBits) / passed;
      const std::uint64_t change = std::max(rate_, last_rate) - std::min(rate_, last_rate);
      const bool interrupted = now_ticks - before > passed / kTolerance;
      if (rate_ > 0 && change < rate_ / kTolerance && !interrupted)
        trusted_ = (static_cast<std::uint64_t>(kTrustNs) << kRateBits) / rate_;
    }
    ticks_ = now_ticks;
    return ns_ = std::max(now_ns, told_ns);
  }

  std::uint64_t ticks_ = 0;
  std::int64_t ns_ = 0;
  std::uint64_t rate_ = 0;     // nanoseconds per tick << kRateBits
  std::uint64_t trusted_ = 0;  // ticks from the look; 0: the rate is not known
};

thread_local Anchor anchor;

}  // namespace

FastClock::time_point FastClock::now() { return time_point(nanoseconds(anchor.read_ns())); }

#else

FastClock::time_point FastClock::now() { return std::chrono::steady_clock::now(); }

#endif

}  // namespace tutti::comm
