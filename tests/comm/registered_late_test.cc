// Operations on registered buffers of which a rank is stopped in the middle, while another one gives up.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/process_group.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tests/support/run_ranks.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace tutti::comm {
namespace {

using test::Net;
using test::run_ranks_to_failure;

/// Pages that cannot be read or written before release(): who tries waits there.
class SlowPages {
 public:
  explicit SlowPages(std::span<std::byte> pages) : pages_(pages) {
    protect(PROT_NONE);
    slow_ = this;
    released_ = false;
    struct sigaction action {};
    action.sa_handler = [](int) { slow_->wait(); };
    ::sigaction(SIGSEGV, &action, &before_);
  }
  ~SlowPages() {
    ::sigaction(SIGSEGV, &before_, nullptr);
    protect(PROT_READ | PROT_WRITE);
  }
  SlowPages(const SlowPages&) = delete;
  SlowPages& operator=(const SlowPages&) = delete;

  /// Of all there are.
  static void release() { released_ = true; }

 private:
  void protect(int protection) const {
    if (::mprotect(pages_.data(), pages_.size(), protection) != 0) std::abort();
  }
  void wait() const {
    while (!released_) __builtin_ia32_pause();
    protect(PROT_READ | PROT_WRITE);
  }

  static inline SlowPages* slow_ = nullptr;
  static inline std::atomic<bool> released_ = false;
  const std::span<std::byte> pages_;
  struct sigaction before_ {};
};

void broadcast(ProcessGroup& group, Buffer data) { group.broadcast(data, 0); }
void all_reduce(ProcessGroup& group, Buffer data) { group.all_reduce(data); }

void all_reduce_rounded(ProcessGroup& group, Buffer data) {
  const std::size_t count = data.count / sizeof(double);
  const auto rounded = group.allocate(count * sizeof(float));
  group.all_reduce_rounded({data.data, count, DType::Float64}, {rounded.as<float>().data(), count, DType::Float32});
}

void reduce_scatter(ProcessGroup& group, Buffer data) {
  std::vector<std::byte> own(data.count / static_cast<std::size_t>(group.world_size()));
  data.count = own.size() * static_cast<std::size_t>(group.world_size());
  group.reduce_scatter(data, {own.data(), own.size(), data.dtype});
}

using RegisteredOperation = void (*)(ProcessGroup&, Buffer);
class RegisteredAndLate : public testing::TestWithParam<std::tuple<RegisteredOperation, int>> {};

/// `operate` on memory of which half makes rank 1 late until rank 0 has given up and written something else.
void be_late(ProcessGroup& group, RegisteredOperation operate) {
  constexpr std::size_t kBytes = 1 << 20;
  const auto memory = group.allocate(kBytes);
  const Buffer data{memory.as<std::byte>().data(), kBytes, DType::UInt8};
  if (group.rank() == 1) {
    const SlowPages slow(memory.as<std::byte>().subspan(kBytes / 2));
    group.barrier();
    return operate(group, data);
  }
  group.barrier();
  try {
    operate(group, data);
  } catch (const Error&) {
    std::ranges::fill(memory.as<std::uint8_t>(), std::uint8_t{7});
    if (group.rank() == 0) SlowPages::release();
    throw;
  }
  if (group.rank() == 0) SlowPages::release();
}

TEST_P(RegisteredAndLate, WhatIsWrittenAfterADeadlineIsNoResult) {
  const auto [operate, world_size] = GetParam();
  const auto ends =
      run_ranks_to_failure(world_size, [operate = operate](ProcessGroup& group) { be_late(group, operate); },
                           {.net = Net::Shm, .group = {.timeout = std::chrono::milliseconds(300)}});
  ASSERT_TRUE(ends[0]);
  if (world_size == 2) {
    EXPECT_EQ(ends[0]->code(), ErrorCode::Timeout) << ends[0]->what();
  }
  ASSERT_TRUE(ends[1]) << "rank 1 has taken for a result what others wrote after their deadline";
  test::expect_parts(ends[1]->what(), {"first cause: rank "});
  test::expect_absent(ends[1]->what(), {"first cause: rank 1"});
  // Of a broadcast the third rank has all that it needs.
  if (world_size > 2 && operate != broadcast) {
    EXPECT_TRUE(ends[2]) << "rank 1's share of the result is missing";
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, RegisteredAndLate,
                         testing::Combine(testing::Values(broadcast, all_reduce, all_reduce_rounded, reduce_scatter),
                                          testing::Values(2, 3)));

}  // namespace
}  // namespace tutti::comm
