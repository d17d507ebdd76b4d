#include <sched.h>
#include <seccomp.h>
#include <sys/syscall.h>
#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/sandbox/seccomp_filter.h>

#include <cstdlib>
#include <memory>
#include <sstream>

namespace tutti::labs {
namespace {

using namespace diagnosis;

struct Known {
  const char* names;  // of one architecture or another
  const char* diagnosis;
  const char* meaning;
};

constexpr Known kKnown[] = {
    {"clone fork vfork", kStartsProcesses, "starts a process"},
    {"clone3", kStartsProcesses, "starts a process or a thread"},
    {"execve execveat", kStartsProcesses, "starts another program"},
    {"wait4", kStartsProcesses, "waits for a child process"},
    {"open openat openat2", kOpensFiles, "opens a file"},
    {"creat", kOpensFiles, "makes a file"},
    {"unlink unlinkat", kOpensFiles, "deletes a file"},
    {"mkdir mkdirat", kOpensFiles, "makes a folder"},
    {"rmdir", kOpensFiles, "deletes a folder"},
    {"rename renameat2", kOpensFiles, "renames a file"},
    {"truncate ftruncate chmod", kOpensFiles, "changes a file"},
    {"symlink", kOpensFiles, "makes a link"},
    {"memfd_create", kOpensFiles, "makes a file in memory"},
    {"chdir", kOpensFiles, "leaves its folder"},
    {"socket socketpair connect", kNetworkAccess, "opens a connection of its own"},
    {"sendto", kNetworkAccess, "sends over a connection by itself"},
    {"recvfrom", kNetworkAccess, "reads from a connection by itself"},
    {"kill tkill tgkill rt_sigqueueinfo", kSignalsOthers, "sends a signal to a process"},
    {"pidfd_open", kSignalsOthers, "takes hold of a process"},
    {"nanosleep clock_nanosleep pause", kSleeps, "sleeps"},
    {"setitimer alarm", kSleeps, "sets a timer"},
    {"poll ppoll select pselect6", kSleeps, "waits for something outside"},
    {"chroot", kForbidden, "changes the root folder"},
    {"mount", kForbidden, "mounts a file system"},
    {"ptrace", kForbidden, "looks into another process"},
    {"process_vm_readv", kForbidden, "reads another process's memory"},
    {"process_vm_writev", kForbidden, "writes another process's memory"},
    {"setrlimit", kForbidden, "changes its limits"},
    {"prlimit64", kForbidden, "changes limits"},
    {"prctl", kForbidden, "changes how the kernel treats it"},
    {"seccomp", kForbidden, "changes the sandbox"},
    {"setsid", kForbidden, "leaves its session"},
    {"unshare", kForbidden, "makes a namespace"},
    {"mmap", kForbidden, "maps a file or executable memory"},
    {"mprotect", kForbidden, "makes memory executable"},
    {"shmget", kForbidden, "shares memory"},
    {"pipe pipe2", kForbidden, "makes a pipe"},
    {"dup dup2 dup3", kForbidden, "copies a descriptor"},
};

std::string name_of(std::int64_t number) {
  const std::unique_ptr<char, decltype(&std::free)> name(
      seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, static_cast<int>(number)), std::free);
  return name == nullptr ? "system call " + std::to_string(number) : std::string(name.get());
}

}  // namespace

RefusedCall refused_call(std::int64_t number, std::uint64_t first_argument) {
  // glibc starts threads by clone3 and falls back to clone with this flag.
  if (number == SYS_clone && (first_argument & CLONE_THREAD) != 0)
    return {"clone", kStartsProcesses, "starts a thread"};
  const std::string name = name_of(number);
  for (const Known& known : kKnown) {
    std::istringstream names(known.names);
    for (std::string one; names >> one;) {
      if (one == name) return {name, known.diagnosis, known.meaning};
    }
  }
  return {name, kForbidden, ""};
}

}  // namespace tutti::labs
