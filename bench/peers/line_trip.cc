// How far apart two processors are just now: prints the nanoseconds in which a line of memory goes from the first
// allowed processor to the second one and back. On a virtual machine it depends on where the host runs them, by a
// factor of five, and changes within seconds. One round trip is two stores that the other side waits for.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

namespace {

constexpr int kTrips = 100'000;

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) processors.push_back(cpu);
  }
  return processors;
}

void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof set, &set);
}

void answer_on(int processor, std::atomic<int>& line) {
  stay_on(processor);
  for (int trip = 0; trip < kTrips; ++trip) {
    while (line.load(std::memory_order_acquire) != 2 * trip + 1) {
    }
    line.store(2 * trip + 2, std::memory_order_release);
  }
}

}  // namespace

int main() {
  const std::vector<int> processors = allowed_processors();
  if (processors.size() < 2) {
    std::fprintf(stderr, "line_trip: needs two processors\n");
    return 1;
  }
  alignas(128) std::atomic<int> line{0};
  std::thread other(answer_on, processors[1], std::ref(line));
  stay_on(processors[0]);
  const auto begin = std::chrono::steady_clock::now();
  for (int trip = 0; trip < kTrips; ++trip) {
    line.store(2 * trip + 1, std::memory_order_release);
    while (line.load(std::memory_order_acquire) != 2 * trip + 2) {
    }
  }
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
  other.join();
  std::printf("%.1f\n", taken.count() / kTrips);
  return 0;
}
