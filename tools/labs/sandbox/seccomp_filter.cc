#include <linux/seccomp.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <tutti/tools/labs/sandbox/confined_process.h>
#include <tutti/tools/labs/sandbox/seccomp_filter.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace tutti::labs {
namespace {

// Whatever is asked for may be had. Calls that this architecture does not have are left out by libseccomp.
constexpr int kAllowed[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(brk),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(futex),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(getpid),
    SCMP_SYS(getppid),
    SCMP_SYS(gettid),
    SCMP_SYS(sched_yield),
    SCMP_SYS(getrandom),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(fstat),
    SCMP_SYS(getcpu),
    SCMP_SYS(uname),
    SCMP_SYS(getrusage),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(arch_prctl),
    SCMP_SYS(time),
};

// What the C library tries at its start and end and does without.
struct Declined {
  int call;
  std::uint32_t error;
};
constexpr Declined kDeclined[] = {
    {SCMP_SYS(ioctl), ENOTTY},     {SCMP_SYS(lseek), ESPIPE},  {SCMP_SYS(readlinkat), ENOENT},
    {SCMP_SYS(newfstatat), EBADF}, {SCMP_SYS(close), EBADF},   {SCMP_SYS(sched_getaffinity), ENOSYS},
    {SCMP_SYS(statx), EBADF},      {SCMP_SYS(fcntl), EBADF},   {SCMP_SYS(sysinfo), ENOSYS},
    {SCMP_SYS(readlink), ENOENT},  {SCMP_SYS(access), ENOENT},
};

void require(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string("libseccomp cannot ") + what + ": " + std::strerror(-result));
}

using Context = std::unique_ptr<void, decltype(&seccomp_release)>;

template <typename... Conditions>
void allow(const Context& context, int call, Conditions... conditions) {
  require(seccomp_rule_add(context.get(), SCMP_ACT_ALLOW, call, sizeof...(conditions), conditions...),
          "make the filter of system calls");
}

/// The filter as the kernel takes it.
std::vector<sock_filter> exported(const Context& context) {
  const Descriptor file(static_cast<int>(memfd_create("filter", MFD_CLOEXEC)));
  require(seccomp_export_bpf(context.get(), file.get()), "write the filter of system calls");
  std::vector<sock_filter> program(static_cast<std::size_t>(lseek(file.get(), 0, SEEK_END)) / sizeof(sock_filter));
  const std::size_t bytes = program.size() * sizeof(sock_filter);
  if (program.empty() || pread(file.get(), program.data(), bytes, 0) != static_cast<ssize_t>(bytes)) {
    throw std::runtime_error("cannot read the filter of system calls that libseccomp has made");
  }
  return program;
}

}  // namespace

SubmissionFilter::SubmissionFilter(std::uint64_t secret_address) {
  const Context context(seccomp_init(SCMP_ACT_TRAP), seccomp_release);
  if (context == nullptr) throw std::runtime_error("libseccomp cannot make a filter of system calls on this machine");
  require(seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS),
          "refuse other architectures");
  for (const int call : kAllowed) allow(context, call);
  for (const Declined& declined : kDeclined) {
    require(seccomp_rule_add(context.get(), SCMP_ACT_ERRNO(declined.error), declined.call, 0),
            "make the filter of system calls");
  }
  // Memory of its own, never to be executed, and no file mapped.
  const auto not_executable = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
  allow(context, SCMP_SYS(mmap), not_executable, SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS));
  allow(context, SCMP_SYS(mprotect), not_executable);
  // Limits may be asked for, not set.
  allow(context, SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_EQ, 0));
  // The one start of the submission.
  allow(context, SCMP_SYS(execveat), SCMP_A1(SCMP_CMP_EQ, secret_address));
  program_ = exported(context);
}

bool SubmissionFilter::install() const noexcept {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  const sock_fprog program{static_cast<unsigned short>(program_.size()), const_cast<sock_filter*>(program_.data())};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

}  // namespace tutti::labs
