#include "fiber.h"

#include <cstdint>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
// Saves what the calling convention has a callee keep, on the old stack, and takes it from the new one.
extern "C" void tutti_emulator_switch(void** save, void* to);
asm(R"(
.text
.globl tutti_emulator_switch
.type tutti_emulator_switch, @function
tutti_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size tutti_emulator_switch, .-tutti_emulator_switch
)");
// Where a fresh stack begins: the fiber lies in r12, its entry in r13; nothing returns from it.
extern "C" void tutti_emulator_begin();
asm(R"(
.text
.globl tutti_emulator_begin
.type tutti_emulator_begin, @function
tutti_emulator_begin:
  movq %r12, %rdi
  callq *%r13
  ud2
.size tutti_emulator_begin, .-tutti_emulator_begin
)");
#else
#include <ucontext.h>
#endif

namespace cuda_emulator {

#if !defined(__x86_64__)
namespace {
// Elsewhere: the C library's contexts, which keep the signal mask too and cost two system calls.
void tutti_emulator_switch(void** save, void* to) {
  ucontext_t here;
  *save = &here;
  swapcontext(&here, static_cast<ucontext_t*>(to));
}
}  // namespace
#endif

Fiber::Fiber() : stack_(new std::byte[kStackBytes]) {
#if defined(__SANITIZE_THREAD__)
  tsan_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(tsan_fiber_);
#endif
}

void Fiber::start(Body body, void* argument) {
  body_ = body;
  argument_ = argument;
  finished_ = false;
#if defined(__x86_64__)
  auto top = reinterpret_cast<std::uintptr_t>(stack_.get()) + kStackBytes;
  top &= ~std::uintptr_t{15};
  // r15, r14, r13, r12, rbx, rbp, the return address; behind them the stack is aligned as a call wants it.
  auto* words = reinterpret_cast<std::uintptr_t*>(top) - 9;
  words[0] = words[1] = words[4] = words[5] = 0;
  words[2] = reinterpret_cast<std::uintptr_t>(&Fiber::enter);
  words[3] = reinterpret_cast<std::uintptr_t>(this);
  words[6] = reinterpret_cast<std::uintptr_t>(&tutti_emulator_begin);
  words[7] = words[8] = 0;
  context_ = words;
#else
  static thread_local ucontext_t fresh;
  getcontext(&fresh);
  fresh.uc_stack.ss_sp = stack_.get();
  fresh.uc_stack.ss_size = kStackBytes;
  fresh.uc_link = nullptr;
  static thread_local Fiber* starting = nullptr;
  starting = this;
  makecontext(
      &fresh, [] { enter(starting); }, 0);
  context_ = &fresh;
#endif
  switch_in();
}

void Fiber::resume() { switch_in(); }

void Fiber::pause() { switch_out(false); }

void Fiber::switch_in() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_scheduler_, stack_.get(), kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  tsan_scheduler_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_fiber_, 0);
#endif
  tutti_emulator_switch(&scheduler_, context_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_scheduler_, nullptr, nullptr);
#endif
}

void Fiber::switch_out([[maybe_unused]] bool for_ever) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake_fiber_, scheduler_bottom_, scheduler_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_scheduler_, 0);
#endif
  tutti_emulator_switch(&context_, scheduler_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_fiber_, &scheduler_bottom_, &scheduler_bytes_);
#endif
}

void Fiber::enter(Fiber* self) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self->scheduler_bottom_, &self->scheduler_bytes_);
#endif
  self->run();
}

void Fiber::run() {
  body_(argument_);
  finished_ = true;
  switch_out(true);
}

}  // namespace cuda_emulator
