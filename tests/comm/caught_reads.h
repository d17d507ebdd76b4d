// CaughtReads: calls of process_vm_readv(2) that fail, or come late, in the threads that ask for it.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace tutti::test {

/// What becomes of process_vm_readv() in a thread that has called catch_reads(), which holds until the thread ends.
class CaughtReads {
 public:
  enum What { AreRefused, AreLate };  // until release()

  /// False: no system calls can be caught here.
  static bool catch_reads(What what) {
    what_ = what;
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSYS, &action, nullptr);
    constexpr std::uint32_t kCalled = offsetof(seccomp_data, nr), kParts = offsetof(seccomp_data, args[4]);
    std::array<sock_filter, 6> code{
        {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kCalled), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 3),
         BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kParts), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kHandled, 1, 0),
         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
    const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

  static void start() {
    tries_ = 0;
    released_ = false;
  }
  static int tries() { return tries_; }
  static void release() { released_ = true; }

 private:
  static constexpr int kHandled = 3;  // parts of memory; by so many a call of the handler's is known

  static void handle(int, siginfo_t*, void* context) {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    ++tries_;
    registers[REG_RAX] = what_ == AreRefused ? -EPERM : read_late(registers);
  }
  static long read_late(const greg_t* registers) {
    while (!released_) __builtin_ia32_pause();
    const auto* parts = reinterpret_cast<const iovec*>(registers[REG_R10]);
    const std::array<iovec, kHandled> there{parts[0], parts[1], iovec{}};
    return ::syscall(SYS_process_vm_readv, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX], there.data(),
                     kHandled, 0);
  }

  static inline std::atomic<What> what_;
  static inline std::atomic<int> tries_;
  static inline std::atomic<bool> released_;
};

}  // namespace tutti::test
