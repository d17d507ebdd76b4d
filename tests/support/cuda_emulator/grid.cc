#include "grid.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "fiber.h"

thread_local uint3 threadIdx;
thread_local uint3 blockIdx;
thread_local dim3 blockDim;
thread_local dim3 gridDim;

namespace cuda_emulator {
namespace {

constexpr unsigned kWarp = 32;
enum class State { Waiting, Ready, Running, AtBlockBarrier, AtWarpBarrier, Done };
enum class Order { Forward, Reverse, Shuffle };

Order order_asked_for() {
  const char* text = std::getenv("TUTTI_EMULATOR_ORDER");
  if (text == nullptr || std::string_view(text) == "forward") return Order::Forward;
  return std::string_view(text) == "reverse" ? Order::Reverse : Order::Shuffle;
}

struct Thread {
  Fiber* fiber = nullptr;
  State state = State::Waiting;
  unsigned mask = 0;  // of the warp barrier where it waits
  std::uint64_t given = 0;
  std::uint64_t taken = 0;
  unsigned source = 0;  // the lane that gave `taken`
};

class Block {
 public:
  Block(const std::function<void()>& body, Order order) : body_(body), order_(order) {}

  void run(std::size_t dynamic_shared_bytes);
  Thread& current() { return threads_[current_]; }
  unsigned lane() const { return static_cast<unsigned>(current_) % kWarp; }
  void wait_in(State state) {
    Thread& self = current();
    self.state = state;
    self.fiber->pause();
  }
  void* shared() { return shared_.data(); }

 private:
  static void work(void* self) { static_cast<Block*>(self)->start_threads(); }
  void start_threads();
  void enter(std::size_t index);
  void continue_ready();
  void release_warps();
  bool release_group(std::size_t first, unsigned mask);
  void release_block();
  std::size_t count(State state) const {
    return static_cast<std::size_t>(std::ranges::count(threads_, state, &Thread::state));
  }
  Fiber* free_fiber();

  const std::function<void()>& body_;
  Order order_;
  std::vector<Thread> threads_;
  std::vector<std::size_t> sequence_;
  std::size_t started_ = 0;
  std::size_t current_ = 0;
  Fiber* fiber_ = nullptr;  // the one that runs
  std::vector<std::byte> shared_;
};

thread_local Block* running = nullptr;
thread_local std::vector<std::unique_ptr<Fiber>> fibers;

Fiber* Block::free_fiber() {
  for (const auto& fiber : fibers) {
    if (fiber->finished()) return fiber.get();
  }
  return fibers.emplace_back(std::make_unique<Fiber>()).get();
}

void Block::enter(std::size_t index) {
  current_ = index;
  const auto i = static_cast<unsigned>(index);
  threadIdx = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
}

// On a fiber: thread after thread, as long as none has to wait. One that waits keeps the fiber.
void Block::start_threads() {
  Fiber* const own = fiber_;
  while (started_ < sequence_.size()) {
    enter(sequence_[started_++]);
    Thread& self = current();
    self.fiber = own;
    self.state = State::Running;
    body_();
    current().state = State::Done;
  }
}

void Block::continue_ready() {
  for (const std::size_t index : sequence_) {
    Thread& thread = threads_[index];
    if (thread.state != State::Ready) continue;
    enter(index);
    thread.state = State::Running;
    fiber_ = thread.fiber;
    thread.fiber->resume();
  }
}

// The lanes of `mask` in the warp that begins at `first` go on when all that have not ended wait with this mask.
bool Block::release_group(std::size_t first, unsigned mask) {
  for (unsigned lane = 0; lane < kWarp && first + lane < threads_.size(); ++lane) {
    const Thread& thread = threads_[first + lane];
    if ((mask >> lane & 1) == 0 || thread.state == State::Done) continue;
    if (thread.state != State::AtWarpBarrier || thread.mask != mask) return false;
  }
  for (unsigned lane = 0; lane < kWarp && first + lane < threads_.size(); ++lane) {
    Thread& thread = threads_[first + lane];
    if ((mask >> lane & 1) == 0 || thread.state == State::Done) continue;
    const bool inside =
        thread.source < kWarp && (mask >> thread.source & 1) != 0 && first + thread.source < threads_.size();
    thread.taken = threads_[first + (inside ? thread.source : lane)].given;
    thread.state = State::Ready;
  }
  return true;
}

void Block::release_warps() {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].state == State::AtWarpBarrier) release_group(i / kWarp * kWarp, threads_[i].mask);
  }
}

void Block::release_block() {
  for (const Thread& thread : threads_) {
    if (thread.state != State::AtBlockBarrier && thread.state != State::Done) return;
  }
  for (Thread& thread : threads_) {
    if (thread.state == State::AtBlockBarrier) thread.state = State::Ready;
  }
}

void Block::run(std::size_t dynamic_shared_bytes) {
  const std::size_t total = std::size_t{blockDim.x} * blockDim.y * blockDim.z;
  threads_.assign(total, {});
  shared_.assign(dynamic_shared_bytes, std::byte{0xff});
  sequence_.resize(total);
  std::iota(sequence_.begin(), sequence_.end(), std::size_t{0});
  if (order_ == Order::Reverse) std::ranges::reverse(sequence_);
  if (order_ == Order::Shuffle) std::shuffle(sequence_.begin(), sequence_.end(), std::mt19937(blockIdx.x + 1));
  started_ = 0;
  running = this;
  while (started_ < total) {
    fiber_ = free_fiber();
    fiber_->start(&Block::work, this);
  }
  while (count(State::Done) < total) {
    release_warps();
    if (count(State::Ready) == 0) release_block();
    if (count(State::Ready) == 0) {
      std::fprintf(
          stderr,
          "cuda_emulator: block (%u, %u, %u) can never go on: of %zu threads %zu wait at __syncthreads, %zu at "
          "a warp's barrier, %zu have ended\n",
          blockIdx.x, blockIdx.y, blockIdx.z, total, count(State::AtBlockBarrier), count(State::AtWarpBarrier),
          count(State::Done));
      std::abort();
    }
    continue_ready();
  }
  running = nullptr;
}

}  // namespace

void run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, const std::function<void()>& thread) {
  const Order order = order_asked_for();
  gridDim = grid;
  blockDim = block;
  Block one(thread, order);
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t at = order == Order::Forward ? i : blocks - 1 - i;
    blockIdx = {static_cast<unsigned>(at % grid.x), static_cast<unsigned>(at / grid.x % grid.y),
                static_cast<unsigned>(at / grid.x / grid.y)};
    one.run(dynamic_shared_bytes);
  }
}

void block_barrier() { running->wait_in(State::AtBlockBarrier); }

std::uint64_t exchange(unsigned mask, std::uint64_t bits, unsigned source_lane) {
  Thread& self = running->current();
  if ((mask >> running->lane() & 1) == 0) {
    std::fputs("cuda_emulator: a thread calls a warp function with a mask that does not name it\n", stderr);
    std::abort();
  }
  self.mask = mask;
  self.given = bits;
  self.source = source_lane;
  running->wait_in(State::AtWarpBarrier);
  return self.taken;
}

void warp_barrier(unsigned mask) { exchange(mask, 0, 0); }

unsigned lane() { return running->lane(); }

void* dynamic_shared_memory() { return running->shared(); }

}  // namespace cuda_emulator
