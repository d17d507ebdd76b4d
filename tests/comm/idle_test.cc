// A group in which nothing happens leaves the processors to others.
#include <gtest/gtest.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/support/run_ranks.h>

#include <chrono>
#include <ctime>
#include <string>
#include <thread>
#include <tuple>

namespace tutti::comm {
namespace {

using test::Net;
using test::run_ranks;

/// Of all threads, and so of all ranks.
double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void in_a_barrier(ProcessGroup& group) { group.barrier(); }

/// What no shortcut through shared memory takes.
void in_an_all_reduce_by_schedule(ProcessGroup& group) {
  group.use_algorithm("ring");
  float value = 1;
  group.all_reduce(std::span<float>(&value, 1));
}

void in_an_asynchronous_one(ProcessGroup& group) {
  float value = 1;
  group.all_reduce_async(buffer(std::span<float>(&value, 1)), ReduceOp::Sum).wait();
}

using Wait = void (*)(ProcessGroup&);

class Idle : public testing::TestWithParam<std::tuple<Net, Wait>> {};

TEST_P(Idle, WaitingRanksTakeNoProcessor) {
  constexpr int kRanks = 4;
  constexpr int kWaiting = kRanks - 1;
  constexpr std::chrono::milliseconds kBefore(1000), kMeasured(500);
  const auto [net, wait] = GetParam();
  run_ranks(net, kRanks, [&](ProcessGroup& group) {
    float word = 1;
    group.barrier();
    if (group.rank() == 0) {  // for whom the others wait
      std::this_thread::sleep_for(kBefore);
      const double before = processor_seconds();
      std::this_thread::sleep_for(kMeasured);
      const double taken = processor_seconds() - before;
      EXPECT_LT(taken, 0.01 * kWaiting * std::chrono::duration<double>(kMeasured).count());
      group.send(std::span<float>(&word, 1), 1);
    }
    if (group.rank() == 1) group.recv(std::span<float>(&word, 1), 0);  // a message; then the others' wait
    wait(group);
  });
}

std::string idle_name(const testing::TestParamInfo<Idle::ParamType>& param) {
  const Wait wait = std::get<1>(param.param);
  return test::name(std::get<0>(param.param)) + (wait == in_a_barrier             ? "Barrier"
                                                 : wait == in_an_asynchronous_one ? "Asynchronous"
                                                                                  : "Schedule");
}

INSTANTIATE_TEST_SUITE_P(
    All, Idle,
    testing::Combine(testing::ValuesIn(test::available({Net::Inproc, Net::Tcp, Net::Shm, Net::Mixed, Net::Ucx})),
                     testing::Values(in_a_barrier, in_an_all_reduce_by_schedule, in_an_asynchronous_one)),
    idle_name);

}  // namespace
}  // namespace tutti::comm
