#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <tutti/tools/run/strays.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

namespace tutti::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kKillTime{5};
constexpr char kThreads[] = "/proc/self/task";

// Of all threads: an orphan becomes a child of any of them.
std::set<pid_t> children() {
  std::set<pid_t> result;
  std::error_code ended;
  for (std::filesystem::directory_iterator thread(kThreads, ended), none; !ended && thread != none;
       thread.increment(ended)) {
    std::ifstream file(thread->path() / "children");
    for (pid_t pid = 0; file >> pid;) result.insert(pid);
  }
  return result;
}

}  // namespace

Strays::Strays() : before_(children()) {
  prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  if (std::filesystem::exists("/proc/thread-self/children")) prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Strays::~Strays() { prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_); }

std::set<pid_t> Strays::found(const std::set<pid_t>& own) const {
  std::set<pid_t> result = children();
  std::erase_if(result, [&](pid_t pid) { return before_.contains(pid) || own.contains(pid); });
  return result;
}

void Strays::reap(const std::set<pid_t>& own) const {
  for (const pid_t pid : found(own)) ::waitpid(pid, nullptr, WNOHANG);
}

void Strays::end(const std::set<pid_t>& own) const {
  const Clock::time_point give_up = Clock::now() + kKillTime;
  for (std::set<pid_t> left = found(own); !left.empty() && Clock::now() < give_up; left = found(own)) {
    bool killed = false;
    for (const pid_t pid : left) {
      killed = ::kill(pid, SIGKILL) == 0 || killed;  // not if it has become another user's
      ::waitpid(pid, nullptr, WNOHANG);
    }
    if (!killed) return;
    ::poll(nullptr, 0, 1);
  }
}

// The state letter of /proc/<pid>/stat: 'T' stopped by a signal, 't' by a debugger.
bool is_stopped(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos || end_of_name + 2 >= line.size()) return false;
  const char state = line[end_of_name + 2];
  return state == 'T' || state == 't';
}

}  // namespace tutti::tools
