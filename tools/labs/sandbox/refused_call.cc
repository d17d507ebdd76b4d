#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/sandbox/seccomp_filter.h>

namespace tutti::labs {
namespace {

using namespace diagnosis;

struct Known {
  int number;
  const char* name;
  const char* diagnosis;
  const char* meaning;
};

constexpr Known kKnown[] = {
    {SYS_clone, "clone", kStartsProcesses, "starts a process"},
    {SYS_clone3, "clone3", kStartsProcesses, "starts a process or a thread"},
    {SYS_execve, "execve", kStartsProcesses, "starts another program"},
    {SYS_execveat, "execveat", kStartsProcesses, "starts another program"},
    {SYS_wait4, "wait4", kStartsProcesses, "waits for a child process"},
    {SYS_openat, "openat", kOpensFiles, "opens a file"},
    {SYS_openat2, "openat2", kOpensFiles, "opens a file"},
    {SYS_unlinkat, "unlinkat", kOpensFiles, "deletes a file"},
    {SYS_mkdirat, "mkdirat", kOpensFiles, "makes a folder"},
    {SYS_renameat2, "renameat2", kOpensFiles, "renames a file"},
    {SYS_truncate, "truncate", kOpensFiles, "changes a file"},
    {SYS_ftruncate, "ftruncate", kOpensFiles, "changes a file"},
    {SYS_memfd_create, "memfd_create", kOpensFiles, "makes a file in memory"},
    {SYS_chdir, "chdir", kOpensFiles, "leaves its folder"},
    {SYS_chroot, "chroot", kForbidden, "changes the root folder"},
    {SYS_mount, "mount", kForbidden, "mounts a file system"},
    {SYS_socket, "socket", kNetworkAccess, "opens a connection of its own"},
    {SYS_socketpair, "socketpair", kNetworkAccess, "opens a connection of its own"},
    {SYS_connect, "connect", kNetworkAccess, "opens a connection of its own"},
    {SYS_sendto, "sendto", kNetworkAccess, "sends over a connection by itself"},
    {SYS_recvfrom, "recvfrom", kNetworkAccess, "reads from a connection by itself"},
    {SYS_kill, "kill", kSignalsOthers, "sends a signal to a process"},
    {SYS_tkill, "tkill", kSignalsOthers, "sends a signal to a process"},
    {SYS_tgkill, "tgkill", kSignalsOthers, "sends a signal to a process"},
    {SYS_rt_sigqueueinfo, "rt_sigqueueinfo", kSignalsOthers, "sends a signal to a process"},
    {SYS_pidfd_open, "pidfd_open", kSignalsOthers, "takes hold of a process"},
    {SYS_ptrace, "ptrace", kForbidden, "looks into another process"},
    {SYS_process_vm_readv, "process_vm_readv", kForbidden, "reads another process's memory"},
    {SYS_process_vm_writev, "process_vm_writev", kForbidden, "writes another process's memory"},
    {SYS_nanosleep, "nanosleep", kSleeps, "sleeps"},
    {SYS_clock_nanosleep, "clock_nanosleep", kSleeps, "sleeps"},
    {SYS_setitimer, "setitimer", kSleeps, "sets a timer"},
    {SYS_ppoll, "ppoll", kSleeps, "waits for something outside"},
    {SYS_pselect6, "pselect6", kSleeps, "waits for something outside"},
    {SYS_setrlimit, "setrlimit", kForbidden, "changes its limits"},
    {SYS_prlimit64, "prlimit64", kForbidden, "changes limits"},
    {SYS_prctl, "prctl", kForbidden, "changes how the kernel treats it"},
    {SYS_seccomp, "seccomp", kForbidden, "changes the sandbox"},
    {SYS_setsid, "setsid", kForbidden, "leaves its session"},
    {SYS_unshare, "unshare", kForbidden, "makes a namespace"},
    {SYS_mmap, "mmap", kForbidden, "maps a file or executable memory"},
    {SYS_mprotect, "mprotect", kForbidden, "makes memory executable"},
    {SYS_shmget, "shmget", kForbidden, "shares memory"},
    {SYS_pipe2, "pipe2", kForbidden, "makes a pipe"},
    {SYS_dup, "dup", kForbidden, "copies a descriptor"},
    {SYS_dup3, "dup3", kForbidden, "copies a descriptor"},
#if defined(__x86_64__)
    {SYS_fork, "fork", kStartsProcesses, "starts a process"},
    {SYS_vfork, "vfork", kStartsProcesses, "starts a process"},
    {SYS_open, "open", kOpensFiles, "opens a file"},
    {SYS_creat, "creat", kOpensFiles, "makes a file"},
    {SYS_unlink, "unlink", kOpensFiles, "deletes a file"},
    {SYS_rename, "rename", kOpensFiles, "renames a file"},
    {SYS_mkdir, "mkdir", kOpensFiles, "makes a folder"},
    {SYS_rmdir, "rmdir", kOpensFiles, "deletes a folder"},
    {SYS_chmod, "chmod", kOpensFiles, "changes a file"},
    {SYS_symlink, "symlink", kOpensFiles, "makes a link"},
    {SYS_poll, "poll", kSleeps, "waits for something outside"},
    {SYS_select, "select", kSleeps, "waits for something outside"},
    {SYS_pause, "pause", kSleeps, "sleeps"},
    {SYS_alarm, "alarm", kSleeps, "sets a timer"},
    {SYS_pipe, "pipe", kForbidden, "makes a pipe"},
    {SYS_dup2, "dup2", kForbidden, "copies a descriptor"},
#endif
};

}  // namespace

RefusedCall refused_call(std::int64_t number, std::uint64_t first_argument) {
  // glibc starts threads by clone3 and falls back to clone with this flag.
  if (number == SYS_clone && (first_argument & CLONE_THREAD) != 0)
    return {"clone", kStartsProcesses, "starts a thread"};
  for (const Known& known : kKnown) {
    if (known.number == number) return {known.name, known.diagnosis, known.meaning};
  }
  return {"system call " + std::to_string(number), kForbidden, ""};
}

}  // namespace tutti::labs
