#include <signal.h>
#include <sys/resource.h>
#include <tutti/tools/run/evidence.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace tutti::tools {
namespace {

namespace fs = std::filesystem;

std::string first_line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::string mebibytes(std::uint64_t bytes) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// core(5): the specifiers that are known here; nothing if there are others.
std::optional<fs::path> expanded(const std::string& pattern, pid_t pid, bool append_pid) {
  std::string name;
  bool has_pid = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == '\0') {
      name += pattern[i];
      continue;
    }
    if (next != 'p' && next != 'P' && next != '%') return std::nullopt;
    has_pid = has_pid || next != '%';
    name += next == '%' ? "%" : std::to_string(pid);
    ++i;
  }
  if (append_pid && !has_pid) name += "." + std::to_string(pid);
  return fs::absolute(name);
}

bool dumps_core(int signal) {
  return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGQUIT || signal == SIGTRAP || signal == SIGSYS;
}

}  // namespace

Evidence::Evidence(const fs::path& root) : root_(root), groups_(root), before_(groups_.out_of_memory_kills()) {}

std::string Evidence::about(const RankEnd& rank) const {
  if (!rank.by_signal) return "";
  if (rank.code == SIGKILL) return of_a_kill();
  return dumps_core(rank.code) ? of_a_core_dump(rank) : "";
}

std::string Evidence::of_a_kill() const {
  const OutOfMemoryKills now = groups_.out_of_memory_kills();
  if (!now.group.empty() && now.in_group > before_.in_group) {
    const std::uint64_t count = now.in_group - before_.in_group;
    return "  Out of memory: the kernel killed " + std::to_string(count) + (count == 1 ? " process" : " processes") +
           " of this job's control group meanwhile (" + now.group + ")" +
           (now.limit ? "; the group's limit is " + mebibytes(*now.limit) : "") +
           ". Ask for more, or use smaller batches or fewer ranks.\n";
  }
  if (!now.on_host || !before_.on_host) return "";
  if (*now.on_host > *before_.on_host) {
    return "  Probably out of memory: the kernel killed a process of this host meanwhile because memory ran out.\n";
  }
  return "  Not for lack of memory: the kernel counts no out-of-memory kill meanwhile, nor did this launcher send it. "
         "A user, a batch system or another program did.\n";
}

std::string Evidence::of_a_core_dump(const RankEnd& rank) const {
  if (!rank.core_dumped) {
    rlimit limit{};
    ::getrlimit(RLIMIT_CORE, &limit);
    return limit.rlim_cur == 0 ? "  It left no core dump: 'ulimit -c unlimited' before the launch allows one.\n" : "";
  }
  const std::string pattern = first_line_of(root_ / "proc/sys/kernel/core_pattern");
  if (pattern.starts_with("|")) {
    const bool systemd = pattern.find("systemd-coredump") != std::string::npos;
    return systemd ? "  It left a core dump: coredumpctl info " + std::to_string(rank.pid) + "\n"
                   : "  It left a core dump with " + pattern.substr(1, pattern.find(' ') - 1) + "\n";
  }
  const bool append_pid = first_line_of(root_ / "proc/sys/kernel/core_uses_pid") == "1";
  const auto file = expanded(pattern, rank.pid, append_pid);
  std::error_code error;
  if (file && fs::exists(*file, error)) return "  It left a core dump: " + file->string() + "\n";
  return "  It left a core dump, where /proc/sys/kernel/core_pattern says: " + pattern + "\n";
}

}  // namespace tutti::tools
