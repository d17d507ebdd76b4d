#include <sys/syscall.h>
#include <tutti/comm/transport/shm/neighbours.h>
#include <unistd.h>

#include <cerrno>

namespace tutti::comm {

Neighbours::Neighbours(HostSegment segment, std::vector<int> ranks, int self)
    : segment_(std::move(segment)),
      ranks_(std::move(ranks)),
      self_(static_cast<int>(std::ranges::find(ranks_, self) - ranks_.begin())),
      dead_(ranks_.size()),
      watches_(ranks_.size(), -1) {
  RankState& state = segment_.state(self_);
  state.bell = doorbell_.address();
  state.last_cache.store(last_cache_of_process() - kUnknownCache, std::memory_order_relaxed);
  state.pid.store(::getpid(), std::memory_order_release);
}

Neighbours::~Neighbours() {
  for (int descriptor : watches_)
    if (descriptor >= 0) ::close(descriptor);
}

int Neighbours::index_of(int rank) const {
  const auto found = std::ranges::lower_bound(ranks_, rank);
  return found != ranks_.end() && *found == rank ? static_cast<int>(found - ranks_.begin()) : -1;
}

void Neighbours::wake(int index) {
  RankState& state = segment_.state(index);
  std::atomic_thread_fence(std::memory_order_acquire);  // it sleeps, so its bell can be seen
  if (state.rung.exchange(1, std::memory_order_acq_rel) == 0) Doorbell::ring(state.bell);
}

std::string Neighbours::reason(int index) const {
  if (segment_.state(index).closed.load(std::memory_order_acquire) != 0) return "it has left the group";
  return "its process has ended";
}

void Neighbours::close() {
  segment_.state(self_).closed.store(1, std::memory_order_release);
  nudge_all();
}

Neighbours::Sleeper::Sleeper(Neighbours& neighbours) : neighbours_(neighbours) {
  neighbours_.segment_.state(neighbours_.self_).sleepers.fetch_add(1, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

Neighbours::Sleeper::~Sleeper() {
  neighbours_.segment_.state(neighbours_.self_).sleepers.fetch_sub(1, std::memory_order_relaxed);
}

void Neighbours::sleep(const std::function<bool()>& ready, const std::vector<int>& awaited,
                       std::chrono::milliseconds timeout) {
  const Sleeper sleeper(*this);
  if (ready()) return;
  std::vector<pollfd> polled;
  add_to(polled, awaited);
  if (::poll(polled.data(), polled.size(), static_cast<int>(timeout.count())) <= 0) return;
  // Other threads of this rank may sleep beside the same bell: the one that silences it passes it on.
  if (after_poll(polled, 0, awaited) && segment_.state(self_).sleepers.load(std::memory_order_relaxed) > 1) wake_self();
}

int Neighbours::watch(int index) {
  std::lock_guard lock(watches_mutex_);
  int& descriptor = watches_[static_cast<std::size_t>(index)];
  if (descriptor >= 0) return descriptor;
  const pid_t pid = segment_.state(index).pid.load(std::memory_order_acquire);
  descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0 && errno == ESRCH) dead_[static_cast<std::size_t>(index)] = true;
  return descriptor;
}

void Neighbours::add_to(std::vector<pollfd>& polled, const std::vector<int>& awaited) {
  polled.push_back({doorbell_.descriptor(), POLLIN, 0});
  for (int index : awaited) polled.push_back({watch(index), POLLIN, 0});  // poll skips -1
}

bool Neighbours::after_poll(const std::vector<pollfd>& polled, std::size_t first, const std::vector<int>& awaited) {
  for (std::size_t i = 0; i < awaited.size(); ++i)
    if (polled[first + 1 + i].revents != 0) dead_[static_cast<std::size_t>(awaited[i])] = true;
  if (polled[first].revents == 0) return false;
  doorbell_.silence();
  segment_.state(self_).rung.store(0, std::memory_order_seq_cst);  // the next poll sees the cause of an earlier ring
  return true;
}

}  // namespace tutti::comm
