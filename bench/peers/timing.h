// What the peers' programs share: the command line, how often to call, and the line they print.
//
// The method is that of `tutti bench` (tools/bench/measure.h), so that times can be compared: the longest time of all
// ranks for each call, the median of the calls, a barrier before calls of more than 32 KiB, calls until 0.3 s have
// passed. Results are not compared. Behind the other words may be an element type (float32 if there is none), and
// "fresh": then a rank writes its data anew before each call, outside the timed part. These programs use nothing of
// Tutti. Thread-safety: one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace peers {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBarrierEachBytes = 32 * 1024;
constexpr double kMinSeconds = 0.3;
constexpr int kWarmup = 5;
constexpr int kMinCalls = 5;
constexpr int kMaxCalls = 100'000;
constexpr int kBatchGrowth = 9;

/// One rank's means: the operation, and what ranks need to agree with each other.
struct Rank {
  int rank = 0;
  int size = 1;
  std::function<void()> operation;
  std::function<void()> set_up = [] {};  // before each call
  std::function<void()> barrier;
  std::function<void(std::vector<double>&)> maximum;  // element-wise over all ranks, in place, at rank 0 at least
  std::function<int(int)> from_rank_zero;             // rank 0's argument
};

/// How many calls to time next; 0: enough.
inline int next_batch(int done, double seconds) {
  if (done == 0) return 4;
  if (done >= kMaxCalls || (done >= kMinCalls && seconds >= kMinSeconds)) return 0;
  const double missing = (kMinSeconds - seconds) / (seconds / done);
  return static_cast<int>(
      std::clamp(missing, 1.0, static_cast<double>(std::min(kBatchGrowth * done, kMaxCalls - done))));
}

/// Median over the calls of the longest time of all ranks, in microseconds; valid at rank 0.
inline double median_us(const Rank& rank, std::size_t bytes) {
  for (int i = 0; i < kWarmup; ++i) {
    rank.set_up();
    rank.operation();
  }
  std::vector<double> times;
  double seconds = 0;
  while (const int calls = rank.from_rank_zero(next_batch(static_cast<int>(times.size()), seconds))) {
    const auto batch_begin = Clock::now();
    rank.barrier();
    for (int i = 0; i < calls; ++i) {
      rank.set_up();
      if (bytes > kBarrierEachBytes) rank.barrier();
      const auto begin = Clock::now();
      rank.operation();
      times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    }
    seconds += std::chrono::duration<double>(Clock::now() - batch_begin).count();
  }
  rank.maximum(times);
  std::sort(times.begin(), times.end());
  return times[(times.size() - 1) / 2];
}

/// Elements of an array of `bytes`, each rank's share of it where `shared`, but at least one.
template <typename T>
std::size_t elements(std::size_t bytes, int size, bool shared) {
  return std::max<std::size_t>(1, bytes / sizeof(T) / (shared ? static_cast<std::size_t>(size) : 1));
}

/// What writes `data` anew with what it holds now, if the command line asks for `fresh` data.
template <typename T>
std::function<void()> refresh(std::vector<T>& data, bool fresh) {
  if (!fresh) return [] {};
  return [&data, initial = data] { std::copy(initial.begin(), initial.end(), data.begin()); };
}

/// What the words of a command line behind the first ones ask for.
struct Data {
  std::string dtype = "float32";
  bool is_fresh = false;
};

/// Nothing if there are fewer words than `first`, or more than these two behind them.
inline std::optional<Data> data_asked_for(int argc, char** argv, int first) {
  Data data;
  int at = first + 1;
  const auto is_fresh = [&] { return at < argc && std::string(argv[at]) == "fresh"; };
  if (at < argc && !is_fresh()) data.dtype = argv[at++];
  data.is_fresh = is_fresh();
  if (data.is_fresh) ++at;
  return at == argc ? std::optional(data) : std::nullopt;
}

/// measure(an element of that type); false if the type is not known.
template <typename Measure>
bool with_elements_of(const std::string& dtype, Measure measure) {
  if (dtype == "float32") return measure(float()), true;
  if (dtype == "float64") return measure(double()), true;
  if (dtype == "int32") return measure(std::int32_t()), true;
  if (dtype == "int64") return measure(std::int64_t()), true;
  if (dtype == "uint8") return measure(std::uint8_t()), true;
  std::fprintf(stderr, "no element type '%s'\n", dtype.c_str());
  return false;
}

/// True for the operations whose size is the whole array's.
inline bool shares(const std::string& operation) {
  for (const char* name : {"all_gather", "gather", "scatter", "reduce_scatter", "all_to_all"}) {
    if (operation == name) return true;
  }
  return false;
}

/// What the compare command reads: "operation ranks bytes microseconds". Ping-pong's time is one way.
inline void print_result(const Rank& rank, const std::string& operation, std::size_t bytes, double us) {
  if (rank.rank != 0) return;
  std::printf("%s %d %zu %.3f\n", operation.c_str(), rank.size, bytes, operation == "ping_pong" ? us / 2 : us);
  std::fflush(stdout);
}

[[noreturn]] inline void refuse(const char* program, const std::string& operation) {
  std::fprintf(stderr, "%s: no operation '%s'\n", program, operation.c_str());
  std::exit(2);
}

}  // namespace peers
