#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/store/resolve_within.h>

#include <future>
#include <system_error>
#include <thread>
#include <utility>

namespace tutti::comm {
namespace {

bool is_number(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  return ::inet_pton(AF_INET, host.c_str(), &v4) == 1 || ::inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

void run_aside(std::packaged_task<LookUpResult()> task) {
  // Signals belong to the threads of the program, not to this one.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::error_code failed;
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error& error) {
    failed = error.code();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed) throw Error(ErrorCode::System, "cannot start a thread to look up a host name: " + failed.message());
}

}  // namespace

LookUpResult look_up_within(std::function<LookUpResult()> look_up, Deadline deadline) {
  std::packaged_task<LookUpResult()> task(std::move(look_up));
  std::future<LookUpResult> result = task.get_future();
  run_aside(std::move(task));
  if (result.wait_until(deadline.time_point()) == std::future_status::ready) return result.get();
  return {{}, "the name service has not answered in time"};
}

std::vector<Endpoint> resolve_within(const std::string& host, std::uint16_t port, Deadline deadline,
                                     std::string& error) {
  if (is_number(host)) return resolve(host, port, ResolveFor::Connecting, error);
  LookUpResult found = look_up_within(
      [host, port] {
        LookUpResult result;
        result.endpoints = resolve(host, port, ResolveFor::Connecting, result.error);
        return result;
      },
      deadline);
  error = std::move(found.error);
  return std::move(found.endpoints);
}

}  // namespace tutti::comm
