// Fibers: stacks of their own that one thread of the operating system runs in turn. Private to the emulator.
//
// Switching is a dozen instructions (ucontext's would be two system calls, and a block of 256 threads at ten barriers
// switches thousands of times). Sanitizers are told of each switch.
#pragma once

#include <cstddef>
#include <memory>

namespace cuda_emulator {

class Fiber {
 public:
  using Body = void (*)(void*);

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// From the scheduler: (re)starts body(argument) on this stack. Returns at the first pause() or when body returns.
  void start(Body body, void* argument);
  /// From the scheduler: continues behind pause(). Returns as start() does.
  void resume();
  /// From within the body: back to the scheduler.
  void pause();
  bool finished() const { return finished_; }

 private:
  static void enter(Fiber* self);
  void run();
  void switch_in();
  void switch_out(bool for_ever);

  static constexpr std::size_t kStackBytes = 64 << 10;
  std::unique_ptr<std::byte[]> stack_;
  void* context_ = nullptr;    // the stack pointer of whoever is not running
  void* scheduler_ = nullptr;  // and the scheduler's
  Body body_ = nullptr;
  void* argument_ = nullptr;
  bool finished_ = true;
  // What the address sanitizer keeps of each side, and the scheduler's stack.
  void* fake_scheduler_ = nullptr;
  void* fake_fiber_ = nullptr;
  const void* scheduler_bottom_ = nullptr;
  std::size_t scheduler_bytes_ = 0;
  void* tsan_scheduler_ = nullptr;
  void* tsan_fiber_ = nullptr;
};

}  // namespace cuda_emulator
