// What a submission's process says about its own end: which memory it touched, or which system call was refused.
//
// The handlers are installed before anything of the submission's runs (preinit). They call write() and _exit() only.
// What they say is not trusted; a submission that removes them only loses the better text.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <tutti/tools/labs/driver/link.h>
#include <tutti/tools/labs/driver/memory.h>
#include <ucontext.h>

#include <array>

namespace tutti::labs::driver {

/// The buffers of the calls in progress, for the handler. Plain pointers: it must not meet a half-made vector.
struct KnownBuffers {
  const GuardedBuffer* const* buffers = nullptr;
  std::size_t count = 0;
  std::size_t buffers_per_call = 1;
};
inline KnownBuffers known_buffers;
inline int current_call = -1;

inline protocol::FaultReport fault_report(int signal, const siginfo_t& info, const ucontext_t& context) {
  protocol::FaultReport report;
  report.signal = signal;
  report.call = current_call;
  if (signal != SIGSEGV && signal != SIGBUS) return report;
  const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
  report.address = address;
#if defined(__x86_64__)
  report.is_write = (context.uc_mcontext.gregs[REG_ERR] & 2) != 0;
  const auto stack = static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RSP]);
  report.is_stack = address + 65536 >= stack && address <= stack + 65536;
#else
  (void)context;
#endif
  for (std::size_t i = 0; i < known_buffers.count; ++i) {
    const GuardedBuffer* buffer = known_buffers.buffers[i];
    if (!buffer->covers(address)) continue;
    report.call = static_cast<std::int32_t>(i / known_buffers.buffers_per_call);
    report.buffer = static_cast<std::int32_t>(i % known_buffers.buffers_per_call);
    report.offset = static_cast<std::int64_t>(address) - reinterpret_cast<std::int64_t>(buffer->data());
    report.is_stack = 0;
  }
  return report;
}

inline void on_fault(int signal, siginfo_t* info, void* context) {
  const protocol::FaultReport report = fault_report(signal, *info, *static_cast<ucontext_t*>(context));
  protocol::Request request;
  request.verb = protocol::Verb::Fault;
  request.payload_bytes = sizeof report;
  post(request, &report);
  _exit(121);
}

inline bool has_a_path(std::int64_t number, int& argument) {
  argument = 0;
  switch (number) {
#ifdef SYS_open
    case SYS_open:
    case SYS_unlink:
    case SYS_mkdir:
    case SYS_rename:
    case SYS_creat:
    case SYS_symlink:
    case SYS_link:
    case SYS_rmdir:
    case SYS_chmod:
#endif
    case SYS_execve:
    case SYS_truncate:
    case SYS_chdir:
      return true;
    case SYS_openat:
    case SYS_unlinkat:
    case SYS_mkdirat:
    case SYS_renameat:
    case SYS_execveat:
      argument = 1;
      return true;
    default:
      return false;
  }
}

inline void on_refusal(int, siginfo_t* info, void* context) {
  protocol::RefusalReport report;
  report.number = info->si_syscall;
#if defined(__x86_64__)
  const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  report.arguments[0] = static_cast<std::uint64_t>(registers[REG_RDI]);
  report.arguments[1] = static_cast<std::uint64_t>(registers[REG_RSI]);
  report.arguments[2] = static_cast<std::uint64_t>(registers[REG_RDX]);
#elif defined(__aarch64__)
  for (int i = 0; i < 3; ++i) report.arguments[i] = static_cast<ucontext_t*>(context)->uc_mcontext.regs[i];
#endif
  const bool is_own = report.arguments[0] == static_cast<std::uint64_t>(getpid());
  if (report.number == SYS_tgkill && is_own && report.arguments[2] == SIGABRT)
    on_fault(SIGABRT, info, context);  // abort()
  int argument = 0;
  if (has_a_path(report.number, argument)) {
    // A pointer that leads nowhere ends in on_fault(), which is as good an end.
    const char* path = reinterpret_cast<const char*>(report.arguments[argument]);
    for (std::size_t i = 0; path != nullptr && i + 1 < sizeof report.path && path[i] != '\0'; ++i) {
      report.path[i] = path[i];
    }
  }
  protocol::Request request;
  request.verb = protocol::Verb::Refused;
  request.payload_bytes = sizeof report;
  post(request, &report);
  _exit(122);
}

inline void install_handlers() {
  static std::array<unsigned char, 65536> stack;  // a full stack has no room for a handler
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  action.sa_sigaction = on_refusal;
  sigaction(SIGSYS, &action, nullptr);
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  action.sa_sigaction = on_fault;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
}

}  // namespace tutti::labs::driver
