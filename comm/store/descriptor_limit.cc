#include <sys/resource.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/descriptor_limit.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace tutti::comm {
namespace {

// If the open ones cannot be counted: room for standard streams, libraries' own and a log file or two.
constexpr std::size_t kUsuallyOpen = 64;

constexpr std::size_t kOfGroup = 16;  // without connections to ranks: store, listener, event loops, shared memory

std::size_t open_now() {
  std::error_code failed;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    ++count;
  }
  return failed ? kUsuallyOpen : count;
}

rlimit current_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) throw_errno("read the limit of open descriptors", errno);
  return limit;
}

/// True if the soft limit has become higher; it is then `wanted` or the hard limit.
bool raise_to(rlim_t wanted) {
  const rlimit before = current_limit();
  const rlim_t target = std::min(wanted, before.rlim_max);
  if (before.rlim_cur >= target) return false;
  const rlimit after{target, before.rlim_max};
  return ::setrlimit(RLIMIT_NOFILE, &after) == 0;
}

}  // namespace

void raise_descriptor_limit(std::size_t count, const std::string& what) {
  const std::size_t needed = open_now() + count;
  raise_to(needed);
  const rlimit limit = current_limit();
  if (limit.rlim_cur >= needed) return;
  throw Error(ErrorCode::System, what, " needs ", needed, " open descriptors (", count,
              " more than now), but this process may have ", limit.rlim_cur, " (hard limit ", limit.rlim_max,
              "): raise RLIMIT_NOFILE (ulimit -Hn, /etc/security/limits.conf, or LimitNOFILE= of its service)");
}

void make_room_for_group(const std::string& name, std::size_t ranks) {
  raise_descriptor_limit(kOfGroup, "group '" + name + "'");
  raise_to(current_limit().rlim_cur + kOfGroup + 3 * ranks);  // a connection with every rank on each lane
}

bool try_raise_descriptor_limit(std::size_t count) { return raise_to(open_now() + count); }

}  // namespace tutti::comm
