// What the peers' programs share: the command line, how often to call, and the line they print.
//
// The method is that of `tutti bench` (tools/bench/measure.h), so that times can be compared: the longest time of all
// ranks for each call, the median of the calls, a barrier before calls of more than 32 KiB, calls until 0.3 s have
// passed. Results are not compared. With the word "fresh" behind the others a rank writes its data anew before each
// call, outside the timed part. These programs use nothing of Tutti. Thread-safety: one thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
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

/// Elements of a float array of `bytes`, each rank's share of it where `shared`, but at least one.
inline std::size_t elements(std::size_t bytes, int size, bool shared) {
  return std::max<std::size_t>(1, bytes / sizeof(float) / (shared ? static_cast<std::size_t>(size) : 1));
}

/// What writes `data` anew with what it holds now, if the command line asks for `fresh` data.
inline std::function<void()> refresh(std::vector<float>& data, bool fresh) {
  if (!fresh) return [] {};
  return [&data, initial = data] { std::copy(initial.begin(), initial.end(), data.begin()); };
}

/// Whether the word `fresh` stands where it may.
inline bool asks_for_fresh(int argc, char** argv, int words) {
  return argc == words + 1 && std::string(argv[words]) == "fresh";
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
