#include <linux/audit.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <tutti/tools/labs/sandbox/seccomp_filter.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace tutti::labs {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "the sandbox of the labs knows x86-64 and AArch64; another architecture needs its system calls listed here"
#endif

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kRefuse = SECCOMP_RET_TRAP;

constexpr std::uint32_t argument_low(unsigned i) { return offsetof(seccomp_data, args) + 8 * i; }
constexpr std::uint32_t argument_high(unsigned i) { return argument_low(i) + 4; }

// Whatever is asked for may be had.
constexpr int kAllowed[] = {
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_exit,
    SYS_exit_group,
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    SYS_futex,
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_rt_sigaction,
    SYS_sigaltstack,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_gettimeofday,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_sched_yield,
    SYS_getrandom,
    SYS_set_tid_address,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_fstat,
    SYS_getcpu,
    SYS_uname,
    SYS_getrusage,
    SYS_restart_syscall,
#if defined(__x86_64__)
    SYS_arch_prctl,
    SYS_time,
#endif
};

// What the C library tries at its start and end and does without.
struct Declined {
  int call;
  std::uint32_t error;
};
constexpr Declined kDeclined[] = {
    {SYS_ioctl, ENOTTY},     {SYS_lseek, ESPIPE},  {SYS_readlinkat, ENOENT},
    {SYS_newfstatat, EBADF}, {SYS_close, EBADF},   {SYS_sched_getaffinity, ENOSYS},
    {SYS_statx, EBADF},      {SYS_fcntl, EBADF},   {SYS_sysinfo, ENOSYS},
#if defined(__x86_64__)
    {SYS_readlink, ENOENT},  {SYS_access, ENOENT},
#endif
};

class Builder {
 public:
  std::vector<sock_filter> program;

  std::size_t add(std::uint16_t code, std::uint32_t value, std::uint8_t when_true = 0, std::uint8_t when_false = 0) {
    program.push_back({code, when_true, when_false, value});
    return program.size() - 1;
  }
  void load(std::uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
  void verdict(std::uint32_t what) { add(BPF_RET | BPF_K, what); }
  std::size_t unless_equal_skip(std::uint32_t value, std::uint8_t instructions) {
    return add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, instructions);
  }
  void on(int call, std::uint32_t what) {
    unless_equal_skip(static_cast<std::uint32_t>(call), 1);
    verdict(what);
  }
};

}  // namespace

SubmissionFilter::SubmissionFilter() {
  Builder b;
  b.load(offsetof(seccomp_data, arch));
  b.unless_equal_skip(kArchitecture, 1);
  b.add(BPF_JMP | BPF_JA, 1);
  b.verdict(SECCOMP_RET_KILL_PROCESS);
  b.load(offsetof(seccomp_data, nr));
  for (const int call : kAllowed) b.on(call, kAllow);
  for (const Declined& declined : kDeclined) b.on(declined.call, SECCOMP_RET_ERRNO | declined.error);
  // Memory of its own, never to be executed, and no file mapped.
  b.unless_equal_skip(SYS_mmap, 6);
  b.load(argument_low(2));
  b.add(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 2, 0);
  b.load(argument_low(3));
  b.add(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0);
  b.verdict(kRefuse);
  b.verdict(kAllow);
  b.unless_equal_skip(SYS_mprotect, 4);
  b.load(argument_low(2));
  b.add(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1);
  b.verdict(kRefuse);
  b.verdict(kAllow);
  // Limits may be asked for, not set.
  b.unless_equal_skip(SYS_prlimit64, 6);
  b.load(argument_low(2));
  b.unless_equal_skip(0, 3);
  b.load(argument_high(2));
  b.unless_equal_skip(0, 1);
  b.verdict(kAllow);
  b.verdict(kRefuse);
  // abort() of its own.
  b.unless_equal_skip(SYS_tgkill, 6);
  b.load(argument_low(0));
  slots_.push_back({b.unless_equal_skip(0, 3), Slot::Value::Pid});
  b.load(argument_low(2));
  b.unless_equal_skip(SIGABRT, 1);
  b.verdict(kAllow);
  b.verdict(kRefuse);
  // The one start of the submission.
  b.unless_equal_skip(SYS_execveat, 6);
  b.load(argument_low(1));
  slots_.push_back({b.unless_equal_skip(0, 3), Slot::Value::SecretLow});
  b.load(argument_high(1));
  slots_.push_back({b.unless_equal_skip(0, 1), Slot::Value::SecretHigh});
  b.verdict(kAllow);
  b.verdict(kRefuse);
  b.verdict(kRefuse);
  program_ = std::move(b.program);
}

bool SubmissionFilter::install(std::uint32_t pid, std::uint64_t secret_address) noexcept {
  for (const Slot& slot : slots_) {
    std::uint32_t& value = program_[slot.instruction].k;
    if (slot.value == Slot::Value::Pid) value = pid;
    if (slot.value == Slot::Value::SecretLow) value = static_cast<std::uint32_t>(secret_address);
    if (slot.value == Slot::Value::SecretHigh) value = static_cast<std::uint32_t>(secret_address >> 32);
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  const sock_fprog program{static_cast<unsigned short>(program_.size()), program_.data()};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

}  // namespace tutti::labs
