#include <tutti/trainer/checkpoint/requests.h>

#include <cerrno>
#include <cstdint>
#include <ctime>

namespace tutti::trainer {
namespace {

constexpr std::int64_t kSameRequestNs = 1'000'000'000;

// A handler knows nothing but globals.
std::atomic<TrainRequests*> asked{nullptr};
std::atomic<std::int64_t> first_term_ns{0};

std::int64_t now_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

extern "C" void on_user_signal(int) {
  if (TrainRequests* const requests = asked.load()) requests->ask_checkpoint();
}

extern "C" void on_term_signal(int) {
  const int saved = errno;
  std::int64_t first = 0;
  const std::int64_t now = now_ns();
  if (!first_term_ns.compare_exchange_strong(first, now) && now - first > kSameRequestNs) {
    ::signal(SIGTERM, SIG_DFL);
    ::raise(SIGTERM);  // takes effect when this handler returns
  }
  if (TrainRequests* const requests = asked.load()) requests->ask_stop();
  errno = saved;
}

void handle(int signal, void (*handler)(int), struct sigaction& old) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, nullptr, &old);
  if (old.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
}

}  // namespace

void SignalRequests::listen() {
  if (listening_) return;
  listening_ = true;
  first_term_ns.store(0);
  asked.store(this);
  handle(SIGUSR1, on_user_signal, old_user_);
  handle(SIGTERM, on_term_signal, old_term_);
}

SignalRequests::~SignalRequests() {
  if (!listening_) return;
  ::sigaction(SIGUSR1, &old_user_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
  asked.store(nullptr);
}

}  // namespace tutti::trainer
